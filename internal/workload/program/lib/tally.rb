# frozen_string_literal: true

# What one thread did in the running phase. Each thread writes its own, so that counting needs no lock that would show
# in the picture; the sum is made when all threads have left the phase.
class Tally
  FIELDS = %i[requests jobs reports report_cpu_ns queries query_ns lock_ns kept_calls kept_ns kept_cpu_ns].freeze
  attr_accessor(*FIELDS)

  def initialize
    reset
  end

  def reset
    FIELDS.each { |field| instance_variable_set("@#{field}", 0) }
  end

  def self.current
    Thread.current[:tally] ||= new
  end

  def self.sum(tallies)
    FIELDS.map { |field| [field, tallies.map(&field).reduce(0, :+)] }.to_h
  end

  def self.now_ns
    Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  end

  # The CPU time of the thread that asks.
  def self.cpu_ns
    Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  end
end
