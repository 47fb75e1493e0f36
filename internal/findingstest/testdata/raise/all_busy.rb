# All workers of a Puma's pool are in requests that don't end.
module Puma
  class ThreadPool
    def spawn_thread(i)
      named("puma srv tp #{i}") { process_client(IO.pipe) }
    end

    def process_client(pipe)
      handle_request(pipe)
    end

    def handle_request(pipe)
      App.new.call(pipe)
    end
  end
end

class App
  def call(pipe)
    report(pipe)
  end

  def report(pipe)
    pipe[0].read(1)
  end
end
pool = Puma::ThreadPool.new
4.times { |i| pool.spawn_thread(i) }
ready
