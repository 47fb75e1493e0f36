wait_for_go
named("reports") { loop { compute 1 } }
6.times { |i| named("http-#{i}") { loop { compute 0.0005; sleep 0.002 } } }
ready
