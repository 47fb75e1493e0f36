# 8 threads that write and read a byte again and again: each call gives the GVL up for some microseconds.
def load_threads
  Array.new(8) do |i|
    reader, writer = IO.pipe
    ["io #{i}", lambda do
      loop do
        writer.syswrite("x")
        reader.sysread(1)
      end
    end]
  end
end
