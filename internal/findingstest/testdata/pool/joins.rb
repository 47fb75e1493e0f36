# Three connections for six threads. Each waits, with its connection, for a thread that needs none and takes a while.
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
  def initialize(slots)
    @slots = slots
  end

  def build(i)
    @slots.with do
      named("part-#{i}") { part }.join
    end
  end

  def part
    sleep 0.3
  end
end
report = Report.new(Slots.new(3))
6.times { |i| named("web-#{i}") { loop { report.build(i) } } }
ready
