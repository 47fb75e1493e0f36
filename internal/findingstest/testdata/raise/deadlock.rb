a, b = Mutex.new, Mutex.new
named("bystander") { loop { sleep 0.05 } }
named("left") { a.synchronize { sleep 0.2; b.synchronize { } } }
named("right") { b.synchronize { sleep 0.2; a.synchronize { } } }
sleep 0.5
ready
