# A deadlock that a time limit ends: right around the lock that one of the two waits for.
require "timeout"
a, b = Mutex.new, Mutex.new
named("left") { a.synchronize { sleep 0.2; b.synchronize { } } }
named("right") { b.synchronize { sleep 0.2; Timeout.timeout(3600) { a.synchronize { } } } }
sleep 0.5
ready
