class Client
  def connect
    Thread.new { listen }
  end

  def listen
    sleep
  end
end
named("opener") do
  sleep 2
  70.times { Client.new.connect }
  sleep
end
ready
