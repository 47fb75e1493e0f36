# What an idle Puma does: workers wait for a connection, the reactor and the server select, main joins.
module Puma
  class ThreadPool
    def initialize
      @mutex, @not_empty, @todo = Mutex.new, ConditionVariable.new, []
    end

    def spawn_thread(i)
      named("puma srv tp 00#{i}") do
        loop do
          @mutex.synchronize { @not_empty.wait(@mutex) while @todo.empty?; @todo.shift }
        end
      end
    end

    def auto_trim
      named("puma srv tp reap") { loop { @mutex.synchronize { @not_empty.broadcast }; sleep 1 } }
    end
  end

  class Server
    def handle_servers(listener)
      loop { IO.select([listener]) }
    end
  end
end
pool = Puma::ThreadPool.new
5.times { |i| pool.spawn_thread(i) }
pool.auto_trim
listener = TCPServer.new(ADDRESS, 0)
named("puma srv") { Puma::Server.new.handle_servers(listener) }
ready
