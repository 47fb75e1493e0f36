wait_for_go
HEAP = Array.new(100_000) { |i| [i] }
named("worker") { loop { compute 0.1; GC.start } }
2.times { |i| named("other-#{i}") { loop { compute 1 } } }
ready
