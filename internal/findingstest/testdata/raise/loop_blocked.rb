# A fiber of an event loop that waits for a file's lock, which goes past the loop: ten other fibers cannot run meanwhile.
class Ledger
  def initialize
    @path = "/tmp/ddtop-ledger-#{$$}"
    @other = File.open(@path, "w")
    @own = File.open(@path, "w")
    File.unlink(@path)
  end

  def held
    @other.flock(File::LOCK_EX)
    sleep 3
    @other.flock(File::LOCK_UN)
    sleep 0.5
  end

  def book
    @own.flock(File::LOCK_EX)
    @own.flock(File::LOCK_UN)
  end
end
ledger = Ledger.new
named("auditor") { loop { ledger.held } }
event_loop("reactor") do
  10.times { Fiber.schedule { loop { sleep 0.05 } } }
  Fiber.schedule { loop { ledger.book; sleep 0.01 } }
end
ready
