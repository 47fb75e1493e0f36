# What a program does while it starts: it computes, allocates and loads, in several threads.
%w[json set time date optparse erb yaml net/http csv].each { |lib| begin; require lib; rescue LoadError; end }
HEAP = []
BOOTED = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 1.7 # also on a machine that does other things
4.times { |i| named("init-#{i}") { 40.times { break if Process.clock_gettime(Process::CLOCK_MONOTONIC) > BOOTED; HEAP << Array.new(3000) { "x" * 20 }; compute 0.01 } } }
puts "ready"
sleep
