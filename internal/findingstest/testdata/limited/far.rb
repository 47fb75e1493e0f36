# A deadlock that a time limit ends: a thousand calls further out than the lock that one of the two waits for.
require "timeout"
def down(depth, &block)
  depth == 0 ? block.call : down(depth - 1, &block)
end

a, b, go = Mutex.new, Mutex.new, Queue.new
left = named("left") { a.synchronize { go.pop; b.synchronize { } } }
right = named("right") { Timeout.timeout(3600) { b.synchronize { go.pop; down(1000) { a.synchronize { } } } } }
let_deadlock(go, left, right)
ready
