# A deadlock that a time limit ends: right around the lock that one of the two waits for.
require "timeout"
a, b, go = Mutex.new, Mutex.new, Queue.new
left = named("left") { a.synchronize { go.pop; b.synchronize { } } }
right = named("right") { b.synchronize { go.pop; Timeout.timeout(3600) { a.synchronize { } } } }
let_deadlock(go, left, right)
ready
