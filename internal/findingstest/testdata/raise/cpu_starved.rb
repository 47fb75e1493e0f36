# Many more processes that compute than there are CPUs.
require "etc"
wait_for_go
[24, 4 * Etc.nprocessors].max.times { fork { loop { compute 1 } } }
named("worker") { loop { compute 1 } }
ready
