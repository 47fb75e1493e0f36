class Client
  def connect
    Thread.new { listen }
  end

  def listen
    sleep
  end
end
wait_for_go # those that a program starts with are not a leak
go = Queue.new
named("opener") do
  go.pop
  70.times { Client.new.connect }
  sleep
end
ready_and_seen
go << 1
sleep
