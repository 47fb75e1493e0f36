# Five connections for four threads, of which each takes a second one while it has the first: as many as it takes. One
# of the four has a slow query, for which another one waits now and then.
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
  def initialize(pool)
    @pool = pool
  end

  def order
    @pool.with { |_connection| audit }
    compute 0.0005
  end

  def audit
    @pool.with { |_connection| sleep 0.05 }
  end
end
shop = Shop.new(Pool.new(5))
4.times { |i| named("web-#{i}") { loop { shop.order } } }
ready
