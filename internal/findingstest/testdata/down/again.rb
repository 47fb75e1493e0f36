# A slow server, and clients that connect for each question: the connection is there at once, the answer is not.
server(5432, 0.3)
def ask
  Socket.tcp(ADDRESS, 5432) do |socket|
    socket.write("work\n")
    socket.gets
  end
  compute 0.001
end
4.times { |i| named("worker-#{i}") { loop { ask } } }
ready
