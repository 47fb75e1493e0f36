# Three slots for nine threads, in turn: a Monitor's condition, with checkout and checkin around the block and a time limit of its own.
class Slots
  def initialize(size)
    @monitor = Monitor.new
    @freed = @monitor.new_cond
    @free, @turn, @next = size, 0, 0
  end

  def reserve
    checkout
    begin
      yield
    ensure
      checkin
    end
  end

  private

  def checkout
    @monitor.synchronize do
      mine = (@turn += 1)
      @freed.wait(60) until @free > 0 && @next + 1 == mine
      @next, @free = mine, @free - 1
      @freed.broadcast
    end
  end

  def checkin
    @monitor.synchronize { @free += 1; @freed.broadcast }
  end
end
slots = Slots.new(3)
9.times { |i| named("import-#{i}") { loop { slots.reserve { sleep 0.1 + i * 0.02 } } } }
ready
