a, b, go = Mutex.new, Mutex.new, Queue.new
named("bystander") { loop { sleep 0.05 } }
left = named("left") { a.synchronize { go.pop; b.synchronize { } } }
right = named("right") { b.synchronize { go.pop; a.synchronize { } } }
let_deadlock(go, left, right)
ready
