# Two connections for five threads. Each takes one, and a second one while it has the first.
class Pool
  def initialize(size)
    @free = Queue.new
    size.times { |i| @free << i }
  end

  def with
    connection = @free.pop
    yield connection
  ensure
    @free << connection
  end
end

class Shop
  def initialize(pool, arrived)
    @pool, @arrived = pool, arrived
  end

  def order
    @pool.with do |_connection|
      @arrived.pop
      audit
    end
  end

  def audit
    @pool.with { |connection| connection }
  end
end
arrived = Queue.new
shop = Shop.new(Pool.new(2), arrived)
threads = 5.times.map { |i| named("web-#{i}") { shop.order } }
threads.each { |t| wait_until_in(t, "pop") }
5.times { arrived << 1 }
named("clock") { loop { sleep 1 } } # else Ruby itself says that no thread can run
ready
