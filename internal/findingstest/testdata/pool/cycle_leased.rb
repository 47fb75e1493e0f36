# Two connections of Active Record for four threads. Two threads have one each, with no block around it, and wait for a
# thread that wants one, too.
class Shop
  def initialize(pool, arrived)
    @pool, @arrived = pool, arrived
  end

  def order(name)
    @pool.connection
    @arrived.pop
    report(name)
  end

  def report(name)
    named(name) { @pool.connection }.join
  end
end
arrived = Queue.new
shop = Shop.new(active_record_pool(2), arrived)
2.times { |i| wait_until_in(named("web-#{i}") { shop.order("part-#{i}") }, "pop") }
2.times { |i| named("web-#{i + 2}") { shop.order("part") } }
2.times { arrived << 1 }
ready
