# Three connections for three threads. Each has one, and waits for a thread of its own that needs one, too.
class Slots
  def initialize(size)
    @lock, @freed, @free = Mutex.new, ConditionVariable.new, size
  end

  def with
    checkout
    begin
      yield
    ensure
      checkin
    end
  end

  def checkout
    @lock.synchronize do
      @freed.wait(@lock) while @free.zero?
      @free -= 1
    end
  end

  def checkin
    @lock.synchronize { @free += 1; @freed.signal }
  end
end

class Report
  def initialize(slots, arrived)
    @slots, @arrived = slots, arrived
  end

  def build(i)
    @slots.with do
      @arrived.pop
      named("part-#{i}") { part }.join
    end
  end

  def part
    @slots.with { 1 }
  end
end
arrived = Queue.new
report = Report.new(Slots.new(3), arrived)
threads = 3.times.map { |i| named("web-#{i}") { report.build(i) } }
threads.each { |t| wait_until_in(t, "pop") }
3.times { arrived << 1 }
named("clock") { loop { sleep 1 } } # else Ruby itself says that no thread can run
ready
