# An event loop that writes to a pipe that nobody reads, and tries again at once. It also asks for the readers of 200
# other pipes, as a server with many connections does.
class Writer
  DATA = ("x" * 70_000).freeze

  def run(pipe)
    loop { flush(pipe) }
  end

  def flush(pipe)
    IO.select(QUIET, [pipe], nil, 0)
    pipe.write_nonblock(DATA, exception: false)
  end
end
OTHERS = Array.new(200) { IO.pipe }
QUIET = OTHERS.map(&:first)
KEEP = IO.pipe
named("writer") { Writer.new.run(KEEP.last) }
ready
