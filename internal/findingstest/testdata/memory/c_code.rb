# C code takes memory by malloc(3) and keeps it. Ruby makes and drops objects, and collects them.
require "fiddle"
LIBC = Fiddle.dlopen(nil)
MALLOC = Fiddle::Function.new(LIBC["malloc"], [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
MEMSET = Fiddle::Function.new(LIBC["memset"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT, Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
wait_for_go
named("native") { loop { MEMSET.call(MALLOC.call(100_000), 1, 100_000); sleep 0.01 } }
named("web") { loop { Array.new(2000) { "x" * 50 }; sleep 0.01 } }
named("gc") { loop { sleep 2; GC.start } }
ready
