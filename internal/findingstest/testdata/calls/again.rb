# All threads ask a service that takes 600 ms, again and again, and run for so short a time in between that the clock slows down.
server(443, 0.6)
8.times do |i|
  named("worker-#{i}") do
    socket = TCPSocket.new(ADDRESS, 443)
    loop do
      socket.write("work\n")
      socket.gets
    end
  end
end
ready
