# A deadlock that a time limit ends: a thousand calls further out than the lock that one of the two waits for.
require "timeout"
def down(depth, &block)
  depth == 0 ? block.call : down(depth - 1, &block)
end

a, b = Mutex.new, Mutex.new
named("left") { a.synchronize { sleep 0.2; b.synchronize { } } }
named("right") { Timeout.timeout(3600) { b.synchronize { sleep 0.2; down(1000) { a.synchronize { } } } } }
sleep 0.5
ready
