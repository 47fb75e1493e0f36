# Two connections for ten threads, in a pool of the program's own: a Queue. A thread that puts its connection back takes it again before
# one that was woken gets the GVL.
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
    @pool.with { |connection| query(connection) }
    compute 0.0005
  end

  def query(_connection)
    sleep 0.1
  end
end
shop = Shop.new(Pool.new(2))
10.times { |i| named("web-#{i}") { loop { shop.order } } }
ready
