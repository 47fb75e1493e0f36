wait_for_go
# As many objects as make a full collection take thrice the thresholds of the test, however fast the machine is.
HEAP = []
loop do
  HEAP.concat(Array.new(200_000) { |i| [i] })
  before = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
  GC.start
  break if Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - before > 0.1
end
# Two threads that compute. One of them has the collector look at all objects, once in a while.
def report
  compute 1
  GC.start
end
named("reports") { loop { report } }
named("worker") { loop { compute 0.05 } }
ready
