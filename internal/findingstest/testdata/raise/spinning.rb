# Ten threads that ask for something ten thousand times a second.
class Poller
  def run
    loop { sleep 0.0001 }
  end
end
wait_for_go
10.times { |i| named("poller-#{i}") { Poller.new.run } }
ready
