# What probes could trip over, one part after the other, each with a result that is the same on each run. Arguments are the parts to
# run, none for all. It says "ready", begins at a line of input, and says "over" at the end; then a line of input ends it.
require "timeout"
$stdout.sync = true
# gdb interrupts the program when gdb is interrupted, and an interrupt can come just as gdb lets go.
trap(:INT, "IGNORE")
Thread.report_on_exception = false

SPAWNED = [RbConfig.ruby, "--disable-all", "-e", "exit! 5"]

def compute(turns)
  sum = 0
  turns.times { |i| sum = (sum * 31 + i) & 0xffffff }
  sum
end

def in_threads(count, &work)
  Array.new(count) { |i| Thread.new(i, &work) }.map(&:value)
end

PARTS = {
  # Threads are born and die as fast as they can: Ruby uses native threads again, the kernel their numbers.
  churn: -> { in_threads(4) { |i| Array.new(800) { |j| Thread.new { i * j }.value }.sum }.sum },
  # The same, many at once.
  crowd: -> { Array.new(5) { in_threads(300) { |i| sleep 0; i } }.flatten.sum },
  # Children have the breakpoints in their copy of the memory, and run past them.
  forks: lambda {
    Array.new(30) do |i|
      pid = fork { in_threads(3) { |j| 50.times { sleep 0 }; compute(1000 + j) }.sum == Array.new(3) { |j| compute(1000 + j) }.sum ? exit!(i) : exit!(99) }
      Process.wait2(pid)[1].exitstatus
    end.sum
  },
  # A child of a thread other than the main one: that thread is the child's main one, and its rb_thread_t has the same address.
  fork_in_thread: -> { in_threads(3) { |i| Array.new(5) { |j| Process.wait2(fork { Thread.new { sleep 0 }.join; exit!(i + j) })[1].exitstatus }.sum }.sum },
  # A child of a child, and many at once.
  fork_storm: lambda {
    pids = Array.new(20) { |i| fork { exit!(Process.wait2(fork { 100.times { Thread.pass }; exit!(i) })[1].exitstatus) } }
    pids.map { |pid| Process.wait2(pid)[1].exitstatus }.sum
  },
  exec_in_child: -> { Array.new(3) { Process.wait2(fork { exec(*SPAWNED) })[1].exitstatus }.sum },
  # vfork: the child has the process's own memory, with the breakpoints, until it is another program.
  spawn: -> { in_threads(2) { Array.new(3) { Process.wait2(Process.spawn(*SPAWNED))[1].exitstatus }.sum }.sum },
  system: -> { Array.new(3) { system(*SPAWNED); $?.exitstatus }.sum },
  popen: -> { Array.new(3) { |i| IO.popen([RbConfig.ruby, "--disable-all", "-e", "print #{i}"], &:read) }.join },
  # Killed while they wait for the GVL, or hold it and want to hand it on.
  kill_queued: lambda {
    Array.new(40) { Array.new(8) { Thread.new { loop { Thread.pass } } }.each { Thread.pass }.each(&:kill).count(&:join) }.sum
  },
  # An exception from another thread, wherever it is: asleep, in the queue, or not yet begun.
  raise_in: lambda {
    Array.new(200) do
      t = Thread.new { loop { sleep 0 } }
      Thread.pass
      t.raise(IndexError, "x")
      t.join && "alive" rescue $!.message
    end.tally
  },
  timeouts: -> { in_threads(8) { Array.new(15) { Timeout.timeout(0.001) { sleep } rescue "late" } }.flatten.tally },
  convoy: lambda {
    mutex, count = Mutex.new, 0
    in_threads(8) { 500.times { mutex.synchronize { was = count; Thread.pass if was % 10 == 0; count = was + 1 } } }
    count
  },
  condition: lambda {
    mutex, turn, order = Mutex.new, ConditionVariable.new, []
    in_threads(6) do |i|
      30.times { |round| mutex.synchronize { turn.wait(mutex) until order.size == round * 6 + i; order << i; turn.broadcast } }
    end
    order.each_slice(6).tally
  },
  queue_of_500: lambda {
    jobs, done = Queue.new, Queue.new
    threads = Array.new(500) { Thread.new { while (n = jobs.pop) do done << n * 2 end } }
    4000.times { |i| jobs << i }
    jobs.close
    threads.each(&:join)
    Array.new(done.size) { done.pop }.sum
  },
  pass: -> { in_threads(6) { |i| 3000.times { Thread.pass }; i }.sum },
  # The GVL is let go and taken again at each system call.
  released: lambda {
    File.open(File::NULL, "w") { |f| in_threads(4) { |i| 8000.times { f.syswrite("x") }; compute(1000 + i) }.sum }
  },
  pipes: lambda {
    in_threads(3) do |i|
      r, w = IO.pipe
      echo = Thread.new { 1000.times { w.syswrite("x") } }
      got = Array.new(1000) { r.sysread(1) }.size
      echo.join
      [r, w].each(&:close)
      got + i
    end.sum
  },
  signals: lambda {
    seen = 0
    was = trap(:USR1) { seen += 1 }
    sender = Thread.new { 1000.times { Process.kill(:USR1, $$); Thread.pass } }
    sum = in_threads(3) { |i| 20.times { sleep 0 }; compute(20_000 + i) }.sum
    sender.join
    trap(:USR1, was)
    [sum, seen > 0]
  },
  # A signal that the kernel hands to whatever thread, in the midst of anything.
  alarms: lambda {
    seen = 0
    was = trap(:ALRM) { seen += 1 }
    outside = spawn(RbConfig.ruby, "--disable-all", "-e", "2000.times { Process.kill(:ALRM, #{$$}) }; exit! 4")
    work = Array.new(3) { |i| Thread.new { compute(200_000 + i) } }
    status = Process.wait2(outside)[1].exitstatus
    sum = work.map(&:value).sum
    trap(:ALRM, was)
    [sum, status, seen > 0]
  },
  gc_stress: lambda {
    in_threads(3) do |i|
      GC.stress = true
      Array.new(60) { |n| "#{i} #{n}" }.join.size
    ensure
      GC.stress = false
    end.sum
  },
  fibers: -> { in_threads(3) { |i| Array.new(300) { |n| Fiber.new { Fiber.yield(n); i }.then { |f| f.resume + f.resume } }.sum }.sum }
}

parts = ARGV.empty? ? PARTS.keys : ARGV.map(&:to_sym)
puts "ready"
$stdin.gets
parts.each { |name| puts "#{name}: #{PARTS.fetch(name).call}" }
puts "over"
$stdin.gets
