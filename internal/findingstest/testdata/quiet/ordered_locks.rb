# Two locks taken in one order by three threads: they wait for each other, and never in a circle.
a, b = Monitor.new, Mutex.new
3.times do |i|
  named("worker-#{i}") do
    loop do
      a.synchronize { b.synchronize { sleep 0.003 } }
      sleep 0.05
    end
  end
end
named("joiner") { loop { Thread.new { sleep 0.01 }.join } }
ready
