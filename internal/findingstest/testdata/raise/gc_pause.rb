wait_for_go
# As many objects as make a collection take 0.1 s of CPU time, however fast the machine is: thrice the rule's 30 ms, as what
# a collection had of a CPU is known to two stack ticks.
HEAP = []
loop do
  HEAP.concat(Array.new(1_000_000) { |i| [i] })
  before = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
  GC.start
  break if Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - before > 0.1
end
named("worker") { loop { compute 0.3; GC.start } }
ready
