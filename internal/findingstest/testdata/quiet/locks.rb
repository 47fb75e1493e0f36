# Locks of which everybody has a turn: a busy one, one that a thread has for long and lets go of for as long, one rarely contended.
busy, long, rare = Mutex.new, Mutex.new, Monitor.new
2.times { |i| named("busy-#{i}") { loop { busy.synchronize { sleep 0.004 }; sleep 0.006 } } }
named("long") { loop { long.synchronize { sleep 0.04 }; sleep 0.06 } }
named("short") { loop { long.synchronize { sleep 0.002 }; sleep 0.05 } }
3.times { |i| named("rare-#{i}") { loop { rare.synchronize { sleep 0.001 }; sleep 0.1 } } }
ready
