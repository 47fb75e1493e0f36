# Fibers that compute for a second, one after the other, and keep no event loop from running: generators of a thread
# without one, and the only fiber of one. A thread with an event loop at rest is beside them.
event_loop("at rest") { 10.times { Fiber.schedule { loop { sleep 60 } } } }
event_loop("lone") { Fiber.schedule { loop { compute 1.2; sleep 3 } } }
named("generator") do
  others = Array.new(5) { Fiber.new { loop { Fiber.yield 1 } } }
  others.each(&:resume)
  numbers = Enumerator.new { |y| loop { compute 1.2; y << 1 } }
  sleep 2
  loop { numbers.next; sleep 3 }
end
ready
