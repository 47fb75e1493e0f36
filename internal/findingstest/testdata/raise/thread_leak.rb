class Client
  def connect
    Thread.new { listen }
  end

  def listen
    sleep
  end
end
wait_for_go # those that a program starts with are not a leak
named("opener") do
  sleep 2
  70.times { Client.new.connect }
  sleep
end
ready
