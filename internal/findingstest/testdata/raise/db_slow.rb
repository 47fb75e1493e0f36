server(5432, 0.3)
4.times do |i|
  named("worker-#{i}") do
    socket = TCPSocket.new(ADDRESS, 5432)
    loop do
      socket.write("work\n")
      socket.gets
      compute 0.001
    end
  end
end
ready
