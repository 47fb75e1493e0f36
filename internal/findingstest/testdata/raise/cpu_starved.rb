# More processes that compute than there are CPUs.
wait_for_go
24.times { fork { loop { compute 1 } } }
named("worker") { loop { compute 1 } }
ready
