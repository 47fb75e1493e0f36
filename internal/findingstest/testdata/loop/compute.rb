# A fiber of an event loop that computes for seconds, while others would read from their sockets.
class Report
  def build
    until_at = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 4
    n = 0
    n += 1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) < until_at
  end
end
event_loop("reactor") do
  5.times do
    client, server = Socket.pair(:UNIX, :STREAM)
    Fiber.schedule { loop { client.readpartial(10) } }
    Fiber.schedule { loop { server.write("x"); sleep 0.02 } }
  end
  Fiber.schedule { loop { sleep 0.2; Report.new.build } }
end
ready
