# Workers take from Arrays that fill and are emptied again. They and others add to Arrays from which no thread takes: a
# log, a cache, and the results of a worker that takes from a Queue.
class Shop
  LINES = []

  def initialize
    @lock, @jobs, @log, @queue, @done = Mutex.new, [], [], Queue.new, []
  end

  def work
    loop do
      job = @lock.synchronize { @jobs.shift }
      job ? @log.push(job) : sleep(0.01)
    end
  end

  def take
    loop do
      @done << @queue.pop
      LINES << [1].pop
      sleep 0.001
    end
  end

  def order
    loop do
      50.times { |i| @jobs << i; sleep 0.012; @queue << i }
      sleep 0.3
    end
  end
end
shop = Shop.new
named("worker") { shop.work }
named("taker") { shop.take }
named("orders") { shop.order }
ready
