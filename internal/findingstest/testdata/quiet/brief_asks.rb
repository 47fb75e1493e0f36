# Workers of a Puma that wait a moment here and there, one that sleeps long, pollers, and a thread that starts a program now and then.
require "rbconfig"
pool = Puma::ThreadPool.new
3.times { |i| pool.spawn_thread(i) { compute 0.002; sleep 0.004 } }
pool.spawn_thread(3) { compute 0.001; sleep 0.5 }
lines = SizedQueue.new(2)
named("log") { loop { lines.pop; compute 0.001 } }
pool.spawn_thread(4) { compute 0.002; lines << 1; sleep 0.01 }
4.times { |i| named("poller-#{i}") { loop { compute 0.001; sleep 1 } } }
named("reports") { loop { `#{RbConfig.ruby} --version`; sleep 0.7 } }
ready
