# Threads that do one kind of work until standard input ends, 30 frames deep. For each line of input it prints how much they have done,
# the process's CPU time and CLOCK_MONOTONIC, in ns. Arguments: the kind, and for "turns" how many turns at the GVL a second.
$stdout.sync = true

def deep(n, &work)
  n == 0 ? work.call : deep(n - 1, &work)
end

def compute(turns)
  i = 0
  i += 1 while i < turns
end

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

DONE = []

# Threads that count what they have done.
def workers(count)
  count.times do |i|
    DONE[i] = 0
    Thread.new { deep(30) { yield i } }
  end
end

case ARGV[0]
when "compute" then workers(4) { |i| loop { compute(1000); DONE[i] += 1 } }
when "allocate" then workers(4) { |i| loop { Array.new(20) { "a string of more than twenty-four bytes" + "x" }; DONE[i] += 1 } }
when "turns"
  # A write gives the GVL up and takes it back. The work is spread over bursts, one in some milliseconds, and never made up for.
  rate, null = Float(ARGV[1]) / 4, File.open(File::NULL, "w")
  burst = [(rate * 0.005).to_i, 1].max
  workers(4) do |i|
    due = now
    loop do
      burst.times { null.syswrite("x"); compute(20) }
      DONE[i] += burst
      due += burst / rate
      wait = due - now
      wait > 0 ? sleep(wait) : due = now
    end
  end
end

puts "up"
while $stdin.gets
  puts [DONE.sum, Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond), Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)].join(" ")
end
