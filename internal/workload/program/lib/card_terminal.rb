# frozen_string_literal: true

require_relative "tally"

# The card terminal's driver: a C function that blocks and keeps the GVL while it does, as a careless C extension
# would. Fiddle calls poll(2) with the GVL kept where it can (need_gvl, fiddle 1.0.1 of Ruby 3.0); elsewhere
# Kernel#syscall does, which has always kept it.
class CardTerminal
  # The number of ppoll(2), by the machine that Ruby was built for.
  PPOLL = { "x86_64" => 271, "aarch64" => 73, "arm64" => 73 }.freeze

  # settle_for blocks for that many milliseconds.
  def settle(milliseconds)
    tally = Tally.current
    started, cpu = Tally.now_ns, Tally.cpu_ns
    wait_for_device(milliseconds)
    tally.kept_calls += 1
    tally.kept_cpu_ns += Tally.cpu_ns - cpu
    tally.kept_ns += Tally.now_ns - started
  end

  # how says which way is used: "fiddle", "syscall", or nil when there is none.
  def how
    @how ||= fiddle_poll ? "fiddle" : ("syscall" if linux_ppoll)
  end

  private

  def wait_for_device(milliseconds)
    if how == "fiddle"
      fiddle_poll.call(nil, 0, milliseconds)
    else
      syscall(linux_ppoll, 0, 0, timespec(milliseconds), 0, 0)
    end
  end

  # The address of a struct timespec, as an Integer: Kernel#syscall takes no String with null bytes in it. The String
  # is long so that its bytes lie outside its object slot, which compaction could move, and held in a variable.
  def timespec(milliseconds)
    @timespec = [0, milliseconds * 1_000_000].pack("q2").ljust(1024, "\0")
    [@timespec].pack("P").unpack("J").first
  end

  def fiddle_poll
    return @fiddle_poll if defined?(@fiddle_poll)

    @fiddle_poll = begin
      require "fiddle"
      Fiddle::Function.new(Fiddle.dlopen(nil)["poll"],
                           [Fiddle::TYPE_VOIDP, Fiddle::TYPE_LONG, Fiddle::TYPE_INT],
                           Fiddle::TYPE_INT, need_gvl: true)
    rescue LoadError, ArgumentError, Fiddle::DLError
      nil # no Fiddle here, or one too old to keep the lock
    end
  end

  def linux_ppoll
    return nil unless RUBY_PLATFORM.include?("linux") && Kernel.respond_to?(:syscall, true)

    PPOLL[RUBY_PLATFORM[/\A[^-]+/]]
  end
end
