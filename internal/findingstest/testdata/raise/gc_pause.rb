wait_for_go
HEAP = Array.new(1_500_000) { |i| [i] }
named("worker") { loop { compute 0.3; GC.start } }
ready
