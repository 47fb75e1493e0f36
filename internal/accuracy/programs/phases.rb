# A round of phases for each line of standard input that is a number, whose log it prints as JSON: the kind of a phase,
# its native thread, and when it began and ended, by CLOCK_MONOTONIC in ns.
# "run": a thread computes, while no other one has the GVL. "sleep": a thread sleeps. "late": a thread sleeps for 10 ms,
# and would then run, but another one computes. Other lines: "exit", and "exec" of a Ruby that waits.
require "json"
require "rbconfig"

$stdout.sync = true

# Kernel#syscall(gettid): releases before 3.1 don't say the native thread id themselves.
def native_id
  return Thread.current.native_thread_id if Thread.current.respond_to?(:native_thread_id)
  syscall({ "x86_64" => 186, "aarch64" => 178 }.fetch(RbConfig::CONFIG["host_cpu"]))
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

def phase(kind)
  from = now
  yield
  to = now
  $log << [kind, $tids[Thread.current], from, to]
end

def compute(ms)
  to = now + ms * 1_000_000
  nil while now < to
end

$log = []
$tids = { Thread.current => native_id }
go = Queue.new
ready = Queue.new
Thread.new do
  $tids[Thread.current] = native_id
  ready << 1
  loop do
    go.pop
    phase("late") { sleep 0.010 }
  end
end
ready.pop
puts JSON.generate(tid: $tids[Thread.current])
while (line = $stdin.gets)
  exit!(0) if line.start_with?("exit")
  exec(RbConfig.ruby, "--disable=gems", "-e", "puts 1; $stdout.flush; $stdin.gets") if line.start_with?("exec")
  $log = []
  random = Random.new(line.to_i)
  8.times do |i|
    phase("run") { compute(5 + random.rand(15)) }
    phase("sleep") { sleep 0.005 + 0.02 * random.rand }
    case (line.to_i + i) % 4
    when 0 then Process.wait(fork { sleep 0.002; exit!(0) })
    when 1 then 3.times.map { Thread.new { sleep 0.001 } }.each(&:join)
    when 2
      go << 1
      sleep 0.004
      phase("run") { compute(25) }
      sleep 0.002 # the other thread logs its phase
    end
  end
  puts JSON.generate($log)
end
