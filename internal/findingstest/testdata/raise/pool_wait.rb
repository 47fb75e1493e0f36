class ConnectionPool
  class TimedStack
    def initialize
      @lock, @free = Mutex.new, ConditionVariable.new
      @list = [:connection]
    end

    def pop
      @lock.synchronize do
        @free.wait(@lock, 5) while @list.empty?
        @list.pop
      end
    end

    def push(connection)
      @lock.synchronize { @list << connection; @free.signal }
    end
  end

  def initialize
    @available = TimedStack.new
  end

  def checkout
    @available.pop
  end

  def checkin(connection)
    @available.push(connection)
  end
end
pool = ConnectionPool.new
5.times do |i|
  named("worker-#{i}") do
    loop do
      c = pool.checkout
      sleep 0.5
      pool.checkin(c)
    end
  end
end
ready
