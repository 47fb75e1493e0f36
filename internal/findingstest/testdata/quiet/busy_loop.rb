# An event loop with much to do: each of ten fibers computes for 30 ms and waits, so each gets its turn.
event_loop("reactor") do
  10.times { |i| Fiber.schedule { loop { compute 0.03; sleep 0.4 + i * 0.01 } } }
  5.times { Fiber.schedule { loop { sleep 0.05 } } }
end
ready
