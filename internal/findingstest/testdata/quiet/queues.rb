# Threads that wait for a Queue or a ConditionVariable, and rest: workers whose loop takes a block, with two that have long jobs, those
# to whom jobs come now and then, a pipeline whose producer waits for room, a scheduler, and a pool that is large enough.
class Jobs
  def initialize
    @jobs = Queue.new
  end

  def <<(job)
    @jobs << job
  end

  def each
    while (job = @jobs.pop)
      yield job
    end
  end

  def one
    yield @jobs.pop
  end
end
long, short = Jobs.new, Jobs.new
10.times { |i| named("long-#{i}") { long.each { |seconds| sleep seconds } } }
10.times { |i| named("short-#{i}") { loop { short.one { |seconds| sleep seconds } } } }
2.times { long << 1000 }
named("client") { random = Random.new(1); loop { short << random.rand * 0.4; sleep random.rand * 0.2 } }

stage = SizedQueue.new(2)
named("producer") { loop { stage << Time.now; sleep 0.01 } }
3.times { |i| named("stage-#{i}") { loop { stage.pop; sleep 0.04 } } }

lock, wake = Mutex.new, ConditionVariable.new
3.times { |i| named("timer-#{i}") { lock.synchronize { loop { wake.wait(lock, 0.5) } } } }

class Pool
  def initialize(size)
    @free = Queue.new
    size.times { |i| @free << i }
  end

  def with
    connection = @free.pop
    yield connection
  ensure
    @free << connection
  end
end
pool = Pool.new(5)
10.times { |i| named("web-#{i}") { loop { pool.with { sleep 0.005 }; sleep 0.05 + i * 0.003 } } }
ready
