# Four readers of streams to which messages come all the time: they send nothing, so what they wait for is no answer.
listener = TCPServer.new(ADDRESS, 8080)
fork do
  loop do
    client = listener.accept
    Thread.new { loop { sleep 0.3; client.write("message\n") } }
  end
end
listener.close
4.times { |i| named("reader-#{i}") { TCPSocket.new(ADDRESS, 8080).each_line { |line| line.hash } } }
ready
