wait_for_go
# Many short collections, and hardly an old object: together they take longer than one full collection.
2.times { |i| named("worker-#{i}") { loop { 1000.times { |n| "x" * 50 + n.to_s } } } }
ready
