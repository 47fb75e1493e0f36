# A proxy that copies from one socket to another as fast as it can, without waiting in a call.
from, source = UNIXSocket.pair
to, sink = UNIXSocket.pair
fork { loop { source.write("x" * 65_536) } }
fork { loop { sink.readpartial(65_536) } }
named("proxy") do
  data = String.new
  loop do
    begin
      from.read_nonblock(65_536, data)
    rescue IO::WaitReadable
      IO.select([from])
      retry
    end
    begin
      data = data.byteslice(to.write_nonblock(data)..-1) until data.empty?
    rescue IO::WaitWritable
      IO.select(nil, [to])
      retry
    end
  end
end
ready
