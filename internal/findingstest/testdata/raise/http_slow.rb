server(443, 0.4)
3.times do |i|
  named("worker-#{i}") do
    socket = TCPSocket.new(ADDRESS, 443)
    loop do
      socket.write("work\n")
      socket.gets
      compute 0.001
    end
  end
end
ready
