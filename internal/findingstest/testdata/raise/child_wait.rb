2.times { |i| named("worker-#{i}") { Process.wait(fork { sleep 100 }) } }
ready
