# 5 threads: three that take turns at a Mutex, and a pair that hands work over a Queue.
def load_threads
  mutex = Mutex.new
  queue = Queue.new
  done = Queue.new
  compute = lambda do |times|
    n = 0
    n += 1 while n < times
  end
  turns = lambda do
    loop do
      mutex.synchronize { compute.call(3000) }
      compute.call(500)
    end
  end
  [
    ["mutex 0", turns], ["mutex 1", turns], ["mutex 2", turns],
    ["producer", -> { loop { compute.call(500); queue << 1; done.pop } }],
    ["consumer", -> { loop { queue.pop; compute.call(1000); done << 1 } }]
  ]
end
