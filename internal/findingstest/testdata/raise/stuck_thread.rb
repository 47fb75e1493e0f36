server(8080, 1000)
named("worker") do
  compute 4 # long enough to be seen at it: a thread that never did anything else is a stream's reader
  socket = TCPSocket.new(ADDRESS, 8080)
  socket.write("work\n")
  socket.gets
end
sleep 0.2
ready
