# A mail relay refuses, and the workers of a Puma try again after a pause, in the request.
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
