lock = Mutex.new
8.times { |i| named("worker-#{i}") { loop { lock.synchronize { sleep 0.05 } } } }
ready
