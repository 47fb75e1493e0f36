# frozen_string_literal: true

require_relative "tally"

# The log: one JSON object a line, with CLOCK_MONOTONIC in nanoseconds, so that what a profiler saw can be compared
# with what the program says it did. JSON is written by hand for flat objects: where the json library is missing the
# log must still work.
class PhaseLog
  def initialize(path)
    @io = path ? File.open(path, "a") : STDOUT
    @io.sync = true
  end

  def write(event, fields = {})
    all = { event: event, monotonic_ns: Tally.now_ns, pid: Process.pid }.merge(fields)
    @io.write("{#{all.map { |k, v| "#{k.to_s.inspect}:#{value(v)}" }.join(',')}}\n")
  end

  private

  def value(v)
    case v
    when nil, true, false then v.nil? ? "null" : v.to_s
    when Numeric then v.to_s
    when Array then "[#{v.map { |e| value(e) }.join(',')}]"
    else quote(v.to_s)
    end
  end

  def quote(text)
    escaped = text.gsub(/["\\]/) { |c| "\\#{c}" }.gsub(/[\u0000-\u001f]/) { |c| format("\\u%04x", c.ord) }
    "\"#{escaped}\""
  end
end
