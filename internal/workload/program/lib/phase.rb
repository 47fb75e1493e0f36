# frozen_string_literal: true

# A phase: what the shop is like for a while.
class Phase
  # How long a query takes in a phase, in milliseconds.
  QUERY_MS = {
    "healthy" => (3.0..12.0), "hog" => (3.0..12.0), "mutex" => (3.0..12.0),
    "database" => (250.0..900.0), "gc" => (3.0..12.0), "stall" => (3.0..12.0),
    "routes" => (3.0..12.0)
  }.freeze

  attr_reader :name, :requests, :jobs, :query_ms

  def initialize(name)
    @name = name
    @requests = Queue.new
    @jobs = Queue.new
    @query_ms = QUERY_MS.fetch(name)
    @over = false
  end

  def is?(name)
    @name == name
  end

  def over?
    @over
  end

  # finish makes the threads leave: the loops see over?, and those who wait for work get none any more.
  def finish
    @over = true
    [@requests, @jobs].each do |queue|
      queue.clear
      queue.close
    end
  end
end

# The gate between phases. A phase begins when all threads have left the one before, so that the edges in the log are
# edges for every thread.
class Gate
  def initialize(members)
    @members = members
    @mutex = Mutex.new
    @changed = ConditionVariable.new
    @waiting = 0
    @phase = nil
  end

  # enter waits for the phase that follows the given one.
  def enter(last)
    @mutex.synchronize do
      @waiting += 1
      @changed.broadcast
      @changed.wait(@mutex) while @phase.nil? || @phase.equal?(last)
      @waiting -= 1
      @phase
    end
  end

  def open(phase)
    @mutex.synchronize do
      @phase = phase
      @changed.broadcast
    end
  end

  # close waits until all threads wait at the gate; false when some didn't come in time.
  def close(seconds)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    @mutex.synchronize do
      @phase = nil
      while @waiting < @members
        left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
        return false if left <= 0

        @changed.wait(@mutex, left)
      end
      true
    end
  end
end
