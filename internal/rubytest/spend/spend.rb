# Spends CPU time in known C functions of an extension and of libz, and in Ruby, in random pieces. Each
# line of input begins or ends it. It prints the CPU time by function in ns.
$stdout.sync = true
require "zlib"
puts "start"
$stdin.gets
require "./spend"
DATA = Random.new(1).bytes(30_000) * 8
def cpu
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
end

def ruby(n)
  i = 0
  i += 1 while i < n
end
$zlib = $ruby = $all = 0
$go = false
worker = Thread.new do
  random = Random.new(2)
  Thread.stop
  began = cpu
  while $go
    Spend.both((random.rand * 16e6).to_i, (random.rand * 8e6).to_i)
    Spend.without((random.rand * 8e6).to_i)
    random.rand(4).times do
      from = cpu
      Zlib::Deflate.deflate(DATA, 6)
      $zlib += cpu - from
    end
    from = cpu
    ruby(random.rand(400_000))
    $ruby += cpu - from
  end
  $all = cpu - began
end
puts "ready"
$stdin.gets
Thread.pass until worker.stop?
$go = true
worker.run
puts "going"
$stdin.gets
$go = false
worker.join
puts [Spend.spent(0), Spend.spent(1), Spend.spent(2), $zlib, $ruby, $all].join(" ")
$stdin.gets
