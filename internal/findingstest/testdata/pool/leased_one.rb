# Two connections of Active Record for four threads. Of the two threads that have one, the first waits for a thread that
# wants one, too. The second will give its own back.
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
    name == "part-0" ? named(name) { @pool.connection }.join : sleep
  end
end
arrived = Queue.new
shop = Shop.new(active_record_pool(2), arrived)
2.times { |i| wait_until_in(named("web-#{i}") { shop.order("part-#{i}") }, "pop") }
2.times { |i| named("web-#{i + 2}") { shop.order("part") } }
2.times { arrived << 1 }
ready
