# Clients of a server that is down: each attempt to connect is refused at once, and the next one comes after a pause.
def try
  TCPSocket.new(ADDRESS, 5432)
rescue Errno::ECONNREFUSED
  sleep 0.2
end
4.times { |i| named("worker-#{i}") { loop { try } } }
ready
