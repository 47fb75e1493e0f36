server(8080, 1000)
seen = false
named("worker") do
  compute 0.01 until seen # a thread that is never seen doing anything else is taken for the reader of a stream
  socket = TCPSocket.new(ADDRESS, 8080)
  socket.write("work\n")
  socket.gets
end
ready_and_seen
seen = true
sleep
