# frozen_string_literal: true

require "socket"

# The "database": a process of its own that answers each query after the delay that the query asks for. Queries are
# lines "MICROSECONDS TEXT", answers are lines too. It ends when the order service does, however that ends: the lifeline
# is a pipe whose other end only the order service has.
class DatabaseServer
  def initialize(lifeline, port)
    @lifeline = lifeline
    @port = port
  end

  def run
    $0 = "order-database"
    %w[INT TERM].each { |signal| trap(signal, "IGNORE") }
    listener = TCPServer.new("127.0.0.1", 0)
    @port.write("#{listener.addr[1]}\n")
    @port.close
    acceptor = Thread.new { accept_loop(listener) }
    acceptor.name = "acceptor"
    @lifeline.read
    exit!(0)
  end

  # Starts the process of the database and ends it.
  class Launcher
    attr_reader :pid, :port

    # To be called before there are threads: it forks.
    def initialize
      lifeline_read, @lifeline = IO.pipe
      port_read, port_write = IO.pipe
      @pid = fork do
        [@lifeline, port_read].each(&:close)
        DatabaseServer.new(lifeline_read, port_write).run
      end
      [lifeline_read, port_write].each(&:close)
      @port = port_read.read.to_i
      port_read.close
      raise "the database process #{@pid} did not say its port" if @port.zero?
    end

    def close
      @lifeline.close
      Process.wait(@pid)
    rescue Errno::ECHILD
      nil
    end
  end

  private

  def accept_loop(listener)
    loop do
      socket = listener.accept
      socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      Thread.new { serve(socket) }.name = "connection"
    end
  end

  def serve(socket)
    while (line = socket.gets)
      microseconds, text = line.split(" ", 2)
      execute(microseconds.to_i)
      socket.write("#{answer(text)}\n")
    end
  rescue SystemCallError
    nil # the client is gone
  ensure
    socket.close
  end

  def execute(microseconds)
    sleep(microseconds / 1_000_000.0)
  end

  def answer(text)
    "7 open #{text.hash & 0xffff}"
  end
end
