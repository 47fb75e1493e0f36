wait_for_go
named("device") { loop { keep_gvl(80); sleep 0.005 } }
3.times { |i| named("worker-#{i}") { loop { compute 0.002; sleep 0.001 } } }
ready
