server(6379, 0.1)
3.times do |i|
  named("worker-#{i}") do
    socket = TCPSocket.new(ADDRESS, 6379)
    loop do
      socket.write("work\n")
      socket.gets
      compute 0.001
    end
  end
end
ready
