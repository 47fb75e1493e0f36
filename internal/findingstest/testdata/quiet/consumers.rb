# Threads that wait for the outside by their nature, for as long as it takes: a LISTEN on a database, a WebSocket's
# reader, a pipe that another process rarely writes to, a growing pool, a supervisor with its child.
module PG
  class Connection
    def wait_for_notify(socket)
      socket.gets
    end
  end
end
server(5432, 1000)
server(443, 1000)
listen = named("listen") do
  socket = TCPSocket.new(ADDRESS, 5432)
  socket.write("LISTEN\n")
  PG::Connection.new.wait_for_notify(socket)
end
reader, KEEP = IO.pipe
pipe = named("pipe") { reader.read(1) }
websocket = named("websocket") do
  socket = TCPSocket.new(ADDRESS, 443)
  socket.write("hello\n")
  socket.read(1)
end
supervisor = named("supervisor") { Process.wait(fork { sleep 1000 }) }
# What Process.detach starts waits for a child, and nobody waits for it.
2.times { Process.detach(fork { sleep 1000 }) }
named("grow") { 20.times { sleep 0.1; Thread.new { sleep } } }
# A reader is one that was never seen doing anything else.
{ listen => "gets", pipe => "read", websocket => "read", supervisor => "wait" }.each { |thread, m| wait_until_in(thread, m) }
ready
