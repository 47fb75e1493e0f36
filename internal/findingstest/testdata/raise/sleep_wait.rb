# A mail relay refuses, and the workers of a Puma try again after a pause, in the request.
module Puma
  class ThreadPool
    def spawn_thread(i)
      named("puma srv tp 00#{i}") { loop { yield } }
    end
  end
end

class Mailer
  def deliver
    4.times do
      connect
    rescue SystemCallError
      sleep 0.5
    end
  end

  def connect
    TCPSocket.new(ADDRESS, 9).close
  end
end
pool = Puma::ThreadPool.new
4.times { |i| pool.spawn_thread(i) { Mailer.new.deliver } }
ready
