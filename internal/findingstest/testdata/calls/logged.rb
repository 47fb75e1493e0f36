# Threads that call a service again and again, and log how long each call took. Asked for it, the program tells of the shortest and
# of the longest, in seconds.
server(443, 0.3)
LOG = Queue.new
4.times do |i|
  named("worker-#{i}") do
    socket = TCPSocket.new(ADDRESS, 443)
    loop do
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      socket.write("work\n")
      socket.gets
      LOG << Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
    end
  end
end
ready_and_seen
puts Array.new(LOG.size) { LOG.pop }.minmax.join(" ")
sleep
