# Threads in traces, with objects like those of Datadog's tracer and of OpenTelemetry's as far as their classes, instance variables and
# fiber-locals go, and what a reader should find of each, as a line of JSON; again after each line that is read.
# Arguments: configured, unconfigured (Datadog's with and without a tracer that is known), otel, none; or race datadog, race otel.
require "fiber"
require "json"
$stdout.sync = true
MODE, RACED = ARGV
TRACER = MODE == "race" ? RACED : { "configured" => "datadog", "unconfigured" => "datadog" }.fetch(MODE, MODE)
DATADOG_TRACE = 2**127 + 7
T = 2**127 + 5

class Holder
  def initialize(name, value)
    instance_variable_set(name, value)
  end
end

if TRACER == "datadog"
  module Datadog
    class Context
      attr_accessor :active_trace
      def initialize(pid = Process.pid)
        @active_trace = nil
        @fork_pid = pid
      end
    end
    class TraceOperation
      attr_accessor :root_span, :active_span, :resource
      def initialize(resource = nil)
        12.times { |i| instance_variable_set("@other#{i}", i) }
        @resource = resource
        @id = DATADOG_TRACE
        @root_span = nil
        @active_span = nil
        6.times { |i| instance_variable_set("@more#{i}", i.to_s) }
      end
    end
    class SpanOperation
      attr_reader :id
      attr_accessor :type, :resource
      def initialize(id, type = nil, resource = nil)
        @name = "span"
        @type = type
        @resource = resource
        @id = id
      end
    end
    if MODE != "unconfigured"
      key = Holder.new(:@key, :datadog_context_9)
      @components = Holder.new(:@tracer, Holder.new(:@provider, Holder.new(:@context, key)))
    end
  end
end

module OpenTelemetry
  class Key
    def initialize(name)
      @name = name
    end
  end
  class Context
    def initialize(entries)
      @entries = entries.freeze
    end
  end
  class SpanContext
    def initialize(trace, id, remote)
      @trace_id = trace
      @span_id = id
      @trace_flags = nil
      @remote = remote
    end
  end
  class Span
    def initialize(trace, id, kind = :internal, name = "work", remote = false)
      @context = SpanContext.new([trace >> 64, trace & (2**64 - 1)].pack("Q>Q>"), [id].pack("Q>"), remote)
      @kind = kind
      @name = name
    end
  end
  KEY = Key.new("current-span")
  OTHER = Key.new("baggage")
end if TRACER == "otel" || MODE == "configured"

D = Datadog if TRACER == "datadog"
O = OpenTelemetry if defined?(OpenTelemetry)
MOST = 2**62 - 1 # that is no object

# A Datadog context with a trace of some spans, the first one the root and the last one the active one.
def context(ids, type: nil, resource: nil, root_resource: nil, pid: Process.pid)
  c = D::Context.new(pid)
  return c if ids.empty?
  t = D::TraceOperation.new(resource)
  t.root_span = D::SpanOperation.new(ids.first, type, root_resource)
  t.active_span = ids.size == 1 ? t.root_span : D::SpanOperation.new(ids.last)
  c.active_trace = t
  c
end

def found(ids = [], endpoint = "", kind = "none", trace: nil)
  trace ||= TRACER == "otel" ? T : DATADOG_TRACE
  { ID: ids.last.to_s, Root: ids.first.to_s, Endpoint: endpoint, Kind: kind, Trace: ids.empty? ? "" : format("%032x", trace) }
end

KEY = MODE == "unconfigured" ? :datadog_context_4 : :datadog_context_9

# What the threads do before they wait; what each returns is what should be found. A block that they give waits.
DATADOG = {
  "nothing" => ->(_) { found },
  "other locals" => ->(_) { 100.times { |i| Thread.current[:"local#{i}"] = i }; found },
  "idle" => ->(_) { Thread.current[KEY] = context([]); found },
  "root" => ->(_) { Thread.current[KEY] = context([17]); found([17]) },
  "nested" => ->(_) { Thread.current[KEY] = context([100, 101, 102]); found([100, 102]) },
  "web" => lambda { |_|
    Thread.current[KEY] = context([200, 201], type: "web", resource: "OrdersController#index")
    found([200, 201], "OrdersController#index", "request")
  },
  "web of its root" => ->(_) { Thread.current[KEY] = context([210, 211], type: "proxy", root_resource: "GET /o/?"); found([210, 211], "GET /o/?", "request") },
  "worker" => ->(_) { Thread.current[KEY] = context([220, 221], type: "worker".dup, resource: "ReportJob"); found([220, 221], "ReportJob", "job") },
  "web without resource" => ->(_) { Thread.current[KEY] = context([230], type: "web"); found([230]) },
  "sql" => ->(_) { Thread.current[KEY] = context([240], type: "sql", resource: "SELECT 1"); found([240]) },
  "fixnum" => ->(_) { Thread.current[KEY] = context([MOST, MOST - 1]); found([MOST, MOST - 1]) },
  "bignum" => ->(_) { Thread.current[KEY] = context([2**62, 2**64 - 1]); found([2**62, 2**64 - 1]) },
  "among others" => lambda { |_|
    60.times { |i| Thread.current[:"l#{i}"] = i }
    40.times { |i| Thread.current[:"l#{i}"] = nil }
    Thread.current[KEY] = context([300, 301])
    found([300, 301])
  },
  # What other tracers have left behind: an idle later one, an earlier one that still says that it is active.
  "several" => lambda { |_|
    Thread.current[:datadog_context_2] = context([400])
    Thread.current[KEY] = context([410, 411])
    Thread.current[:datadog_context_12] = context([])
    found([410, 411])
  },
  "without active" => ->(_) { Thread.current[KEY] = context([500]).tap { |c| c.active_trace.active_span = nil }; found },
  "without root" => ->(_) { Thread.current[KEY] = context([510]).tap { |c| c.active_trace.root_span = nil }; found },
  "without id" => ->(_) { Thread.current[KEY] = context([nil]); found },
  "parent's" => ->(_) { Thread.current[KEY] = context([520], pid: Process.pid + 1); found },
  "new fiber" => lambda { |wait|
    Thread.current[KEY] = context([530])
    Fiber.new { wait.call(found) }.resume
  },
  "fiber's own" => lambda { |wait|
    Thread.current[KEY] = context([540])
    Fiber.new { Thread.current[KEY] = context([550, 551]); wait.call(found([550, 551])) }.resume
  },
  "back from it" => lambda { |_|
    Thread.current[KEY] = context([560, 561])
    Fiber.new { Thread.current[KEY] = context([570]); Fiber.yield }.resume
    found([560, 561])
  },
}

# Spans of OpenTelemetry on Datadog's tracer: each has a trace of its own.
def bridge(ids, type: nil, resource: nil, active: true)
  above = nil
  ids.each_with_index do |id, i|
    t = D::TraceOperation.new(i == 0 ? resource : nil)
    span = Holder.new(:@datadog_trace, above || t)
    t.instance_variable_set(:@otel_values, above ? { O::OTHER => 1, O::KEY => span } : {})
    if i < ids.size - 1 || active
      t.root_span = t.active_span = D::SpanOperation.new(id, i == 0 ? type : nil)
    else
      t.instance_variable_set(:@parent_span_id, id)
    end
    above = t
  end
  D::Context.new.tap { |c| c.active_trace = above }
end
if MODE == "configured"
  DATADOG["bridge of one"] = ->(_) { Thread.current[KEY] = bridge([600]); found([600]) }
  DATADOG["bridge"] = ->(_) { Thread.current[KEY] = bridge([610, 611, 612], type: "web", resource: "a#b"); found([610, 612], "a#b", "request") }
  DATADOG["bridge by parent"] = ->(_) { Thread.current[KEY] = bridge([620, 621], active: false); found([620, 621]) }
end

def span(*args)
  O::Context.new({ O::OTHER => {}, O::KEY => O::Span.new(*args) })
end
OTEL = {
  "nothing" => ->(_) { [[], found] },
  "empty" => ->(_) { [[], found] },
  "root" => ->(_) { [[span(T, 17)], found([17])] },
  "nested" => ->(_) { [[span(T, 18), span(T, 19), span(T, 20)], found([18, 20])] },
  "server" => ->(_) { [[span(T, 2**64 - 1, :server, "GET /o/:id"), span(T, 2**63)], found([2**64 - 1, 2**63], "GET /o/:id", "request")] },
  "without a span" => ->(_) { [[O::Context.new({ O::OTHER => 1 }), span(T, 30), span(T, 31)], found([30, 31])] },
  "no span on top" => ->(_) { [[span(T, 40), O::Context.new({ O::OTHER => 1 })], found] },
  "another trace below" => ->(_) { [[span(T, 50), span(T + 1, 51), span(T + 1, 52)], found([51, 52], trace: T + 1)] },
  "remote" => ->(_) { [[span(T, 60, nil, nil, true), span(T, 61, :server, "GET /a"), span(T, 62)], found([61, 62], "GET /a", "request")] },
  "zero" => ->(_) { [[span(T, 0)], found] },
  "deep" => ->(_) { [(100..150).map { |i| span(T, i) }, found([100, 150])] },
  "too deep" => ->(_) { [(100..190).map { |i| span(T, i) }, { ID: "190", Root: "0", Endpoint: "", Kind: "none", Trace: format("%032x", T) }] },
}.flat_map do |name, f|
  [
    ["#{name} local", ->(_) { c, e = f.call(nil); Thread.current[:__opentelemetry_context_storage__] = c if name != "nothing"; e }],
    ["#{name} fiber", ->(_) { c, e = f.call(nil); Fiber.current.instance_variable_set(:@opentelemetry_context, c) if name != "nothing"; e }],
  ]
end.to_h if TRACER == "otel"

def race
  threads = (1..2).map do |n|
    Thread.new do
      Thread.current.name = "racer #{n}"
      run = RACED == "otel" ? method(:race_otel) : method(:race_datadog)
      trace = 0
      loop { run.call(n, trace += 1) }
    end
  end
  # GC.compact moves everything, GC.start frees what the racers leave.
  threads << Thread.new { loop { sleep 0.1; GC.respond_to?(:compact) ? GC.compact : GC.start } }
  puts "ready"
  $stdin.gets
end

def id(thread, trace, span)
  (thread << 40) | ((trace & 0xffffffff) << 8) | span
end

def race_datadog(n, trace)
  c = Thread.current[KEY] ||= D::Context.new
  t = D::TraceOperation.new("trace #{id(n, trace, 0)}")
  c.active_trace = t
  t.active_span = t.root_span = D::SpanOperation.new(id(n, trace, 0), "web")
  3.times { |i| t.active_span = D::SpanOperation.new(id(n, trace, i + 1)); Thread.pass if (trace + i) % 4 == 0 }
  t.active_span = nil
  c.active_trace = nil
end

def race_otel(n, trace)
  stack = (Fiber.current.instance_variable_get(:@opentelemetry_context) || Fiber.current.instance_variable_set(:@opentelemetry_context, []))
  4.times { |i| stack.push(span(trace, id(n, trace, i), i == 0 ? :server : :internal, i == 0 ? "trace #{id(n, trace, 0)}" : "x")); Thread.pass if (trace + i) % 4 == 0 }
  4.times { stack.pop }
end

race if MODE == "race"

situations = { "datadog" => defined?(D) && DATADOG, "otel" => defined?(OTEL) && OTEL }[TRACER] || { "nothing" => ->(_) { found } }
def start(situations)
  results = Queue.new
  situations.each do |name, f|
    Thread.new do
      Thread.current.name = name
      wait = lambda do |expected|
        results << [name, expected]
        sleep
      end
      wait.call(f.call(wait))
    end
  end
  situations.size.times.map { results.pop }.to_h
end

expected = start(situations)
puts JSON.generate(expected)
while (command = $stdin.gets)
  case command.chomp
  when "gc" then GC.start
  when "compact" then GC.compact if GC.respond_to?(:compact)
  when "fork"
    # In the child a thread's context is that of the parent until the tracer is used.
    Thread.current[KEY] = context([700])
    reader, writer = IO.pipe
    fork do
      Thread.current.name = "child"
      writer.puts Process.pid
      sleep
    end
    puts reader.gets
    next
  end
  puts JSON.generate(expected)
end
