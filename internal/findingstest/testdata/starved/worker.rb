# Threads that compute.
wait_for_go
2.times { |i| named("worker-#{i}") { loop { compute 1 } } }
ready
