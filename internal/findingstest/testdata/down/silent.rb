# A server that is down behind its address: the kernel drops attempts to connect, because the listener's queue is full.
# Four threads try again and again.
begin
  DOWN = TCPServer.new(ADDRESS, 5432)
rescue Errno::EADDRINUSE, Errno::EACCES => e
  puts "skip #{e.message}"
  exit!(0)
end
DOWN.listen(0)
FILL = 3.times.map do
  Socket.new(:INET, :STREAM).tap do |s|
    s.connect_nonblock(Addrinfo.tcp(ADDRESS, 5432))
  rescue IO::WaitWritable
    next
  end
end
def try
  TCPSocket.new(ADDRESS, 5432)
rescue Errno::ETIMEDOUT
  compute 0.001
end
4.times { |i| named("worker-#{i}") { loop { try } } }
ready
