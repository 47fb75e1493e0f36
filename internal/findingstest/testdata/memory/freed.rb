# C code takes much memory by malloc(3), and frees it soon. Ruby makes and drops objects, and collects them. The pauses
# differ, so that memory has no beat with ddtop's readings.
require "fiddle"
LIBC = Fiddle.dlopen(nil)
MALLOC = Fiddle::Function.new(LIBC["malloc"], [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
FREE = Fiddle::Function.new(LIBC["free"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID)
MEMSET = Fiddle::Function.new(LIBC["memset"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT, Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
wait_for_go
named("native") do
  loop do
    blocks = Array.new(4) { sleep rand * 0.4; MALLOC.call(10_000_000).tap { |b| MEMSET.call(b, 1, 10_000_000) } }
    blocks.each { |b| FREE.call(b) }
  end
end
named("web") { loop { Array.new(200) { "x" * 50 }; sleep 0.01 } }
named("gc") { loop { sleep 2; GC.start } }
ready
