# Fibers of an event loop that compute for 0.3 s each, one after the other, while others would read from their sockets.
class Report
  def page
    compute 0.3
  end
end
event_loop("reactor") do
  5.times do
    client, server = Socket.pair(:UNIX, :STREAM)
    Fiber.schedule { loop { client.readpartial(10) } }
    Fiber.schedule { loop { server.write("x"); sleep 0.02 } }
  end
  3.times { Fiber.schedule { loop { sleep 0.01; Report.new.page } } }
end
ready
