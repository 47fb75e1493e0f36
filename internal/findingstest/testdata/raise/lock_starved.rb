# A thread that lets go of a lock takes it again before those who were woken get the GVL.
lock = Mutex.new
named("writer") { loop { lock.synchronize { sleep 0.02 } } }
2.times { |i| named("reader-#{i}") { loop { lock.synchronize { sleep 0.001 }; sleep 0.01 } } }
ready
