# A process that is stopped while threads hold a lock, wait for it, and compute: only the stop is told of.
lock = Mutex.new
3.times { |i| named("worker-#{i}") { loop { lock.synchronize { sleep 0.005 } } } }
named("compute") { loop { compute 0.01; sleep 0.001 } }
ready_and_seen
Process.kill("STOP", Process.pid)
sleep
