# Threads that wait by their nature and now and then have something to do: a reader to which messages come, an event loop as
# nio4r's and EventMachine's.
require "fiddle"

listener = TCPServer.new(ADDRESS, 8080)
fork do
  client = listener.accept
  2.times { sleep 2; client.write("message\n") }
  sleep
end
listener.close
reader = named("reader") { TCPSocket.new(ADDRESS, 8080).each_line { compute 0.02 } }

def libc(name, *arguments)
  Fiddle::Function.new(Fiddle::Handle::DEFAULT[name], arguments, Fiddle::TYPE_INT)
end
epoll = libc("epoll_create1", Fiddle::TYPE_INT).call(0)
wait = libc("epoll_wait", Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT, Fiddle::TYPE_INT)
named("loop") do
  events = "\0" * 16
  wait.call(epoll, events, 1, 500)
  loop { compute 0.3; wait.call(epoll, events, 1, 8000) }
end
wait_until_in(reader, "each_line")
ready
