wait_for_go
5.times { |i| named("worker-#{i}") { loop { compute 0.01; sleep 0.001 } } }
ready
