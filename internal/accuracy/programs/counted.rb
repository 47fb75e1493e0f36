# Counts what its threads do, for as long as each line of standard input says, and prints a JSON line about it. Loads:
# compute (4 threads in Ruby code), switch (4 threads that give the GVL up in every call).
require "json"
$stdout.sync = true

counts = Array.new(4, 0)
case ARGV[0]
when "compute"
  4.times do |i|
    Thread.new do
      loop do
        n = 0
        n += 1 while n < 1000
        counts[i] += 1
      end
    end
  end
when "switch"
  4.times do |i|
    reader, writer = IO.pipe
    Thread.new do
      loop do
        writer.syswrite("x")
        reader.sysread(1)
        counts[i] += 1
      end
    end
  end
end

clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
cpu = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond) }
while (line = $stdin.gets)
  from, used, done = clock.call, cpu.call, counts.sum
  sleep line.to_f
  to = clock.call
  puts JSON.generate(done: counts.sum - done, ns: to - from, cpu_ns: cpu.call - used)
end
exit!
