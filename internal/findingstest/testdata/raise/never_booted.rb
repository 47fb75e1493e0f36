# A C library's handler for forks waits in the child, as for a lock that a thread of the parent held at the fork.
require "fiddle"
LIBC = Fiddle.dlopen(nil)
REGISTER = Fiddle::Function.new(LIBC["__register_atfork"], [Fiddle::TYPE_VOIDP] * 4, Fiddle::TYPE_INT)
REGISTER.call(nil, nil, LIBC["pause"], nil)
named("library") { loop { sleep 0.05 } }
class Master
  def spawn_worker
    fork { sleep }
  end
end
Master.new.spawn_worker
ready
