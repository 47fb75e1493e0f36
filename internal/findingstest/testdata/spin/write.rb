# An event loop that writes to a pipe that nobody reads, and tries again at once.
class Writer
  DATA = ("x" * 70_000).freeze

  def run(pipe)
    loop { flush(pipe) }
  end

  def flush(pipe)
    IO.select(nil, [pipe], nil, 0)
    pipe.write_nonblock(DATA, exception: false)
  end
end
KEEP = IO.pipe
named("writer") { Writer.new.run(KEEP.last) }
ready
