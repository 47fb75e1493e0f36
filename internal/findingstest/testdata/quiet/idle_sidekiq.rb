# What an idle Sidekiq does: each processor waits for a job in a Redis that answers after 2 s, that there is none. The
# scheduler sleeps in a stack of the connection_pool gem, which is not a pool there.
class ConnectionPool
  class TimedStack
    def initialize
      @lock, @free = Mutex.new, ConditionVariable.new
    end

    def pop(timeout)
      @lock.synchronize { @free.wait(@lock, timeout) }
    end
  end
end
module Sidekiq
  class BasicFetch
    def retrieve_work(socket)
      socket.write("BRPOP queue:default 2\n")
      socket.gets
    end
  end

  module Scheduled
    class Poller
      def start
        sleeper = ConnectionPool::TimedStack.new
        loop { sleeper.pop(5) }
      end
    end
  end

  class Processor
    def run
      socket = TCPSocket.new(ADDRESS, 6379)
      fetch = BasicFetch.new
      loop { fetch.retrieve_work(socket) }
    end
  end
end
server(6379, 2)
5.times { |i| named("sidekiq.processor/#{i}") { Sidekiq::Processor.new.run } }
named("sidekiq.scheduler") { Sidekiq::Scheduled::Poller.new.start }
ready
