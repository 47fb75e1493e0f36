require "fiddle"
LOCK = Fiddle::Pointer.malloc(64)
LOCK[0, 64] = "\0" * 64
TAKE = Fiddle::Function.new(Fiddle.dlopen(nil)["pthread_mutex_lock"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT)
named("owner") { TAKE.call(LOCK) }.join
named("bystander") { loop { sleep 0.05 } }
named("resolver") { TAKE.call(LOCK) }
ready
