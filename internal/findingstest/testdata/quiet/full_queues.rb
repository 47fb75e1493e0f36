# Queues with items, and no lost wake-up: producers that wait for room in a full queue, slow consumers that leave items
# behind, and a consumer that was killed while it waited, before the next push.
full = SizedQueue.new(2)
2.times { |i| named("producer-#{i}") { loop { full << 1 } } }
named("slow") { loop { full.pop; sleep 4 } }

backlog = Queue.new
50.times { backlog << 4 }
2.times { |i| named("consumer-#{i}") { loop { sleep backlog.pop } } }

jobs = Queue.new
workers = Array.new(3) { |i| named("worker-#{i}") { loop { jobs.pop } } }
workers.each { |w| wait_until_in(w, "pop") }
workers.first.kill.join
named("client") { loop { jobs << 1; sleep 3 } }
ready
