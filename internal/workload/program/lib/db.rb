# frozen_string_literal: true

require "socket"
require_relative "tally"

# The client of the "database". Every thread has a connection of its own, as with a connection pool of full size.
class DB
  class << self
    attr_accessor :port, :query_ms

    def query(sql)
      connection.query(sql)
    end

    def connection
      Thread.current[:db] ||= new(port)
    end
  end

  def initialize(port)
    @socket = TCPSocket.new("127.0.0.1", port)
    @socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
  end

  def query(sql)
    started = Tally.now_ns
    send_query(sql)
    row = read_answer
    tally = Tally.current
    tally.queries += 1
    tally.query_ns += Tally.now_ns - started
    row
  end

  private

  def send_query(sql)
    ms = Thread.current[:random].rand(DB.query_ms)
    @socket.write("#{(ms * 1000).to_i} #{sql}\n")
  end

  def read_answer
    line = @socket.gets or raise IOError, "the database closed the connection"
    line.split(" ")
  end
end
