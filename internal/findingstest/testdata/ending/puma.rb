# What a Puma does after SIGTERM: the server's thread joins the workers, and main joins the server's thread.
class OrdersController
  def show
    render
  end

  def render
    [1].each { IO.pipe.first.read }
  end
end
module Puma
  class ThreadPool
    def shutdown(threads)
      threads.each { |t| t.join(1000) }
    end
  end
end
worker = Puma::ThreadPool.new.spawn_thread(1) { OrdersController.new.show }
puts "ready"
$stdin.gets
named("puma srv") { Puma::ThreadPool.new.shutdown([worker]) }.join
