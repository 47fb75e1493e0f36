wait_for_go
# Full collections as long as those of full.rb, while no other thread has anything to do.
HEAP = []
loop do
  HEAP.concat(Array.new(200_000) { |i| [i] })
  before = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
  GC.start
  break if Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - before > 0.1
end
named("collects") { loop { sleep 0.5; GC.start } }
named("worker") { Queue.new.pop }
ready
