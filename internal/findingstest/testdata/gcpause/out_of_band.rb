wait_for_go
# Full collections as long as those of full.rb, while no other thread has anything to do.
HEAP = []
loop do
  HEAP.concat(Array.new(200_000) { |i| [i] })
  before = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
  GC.start
  break if Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - before > 0.1
end
worker = named("worker") { Queue.new.pop }
named("collects") do
  # The others want the GVL when they start and after they have written. On a full machine that can be late. A thread
  # that writes is stopped, too (Thread#stop?).
  wait_until_in(worker, "pop")
  wait_until_in(Thread.main, "sleep")
  loop { sleep 0.5; GC.start }
end
ready
