# What the programs of these tests have in common. Runs on 2.7 and later, with the standard library only.
require "socket"
require "monitor"

$stdout.sync = true
Thread.abort_on_exception = true
# The loopback address of this run: tests side by side each have their own.
ADDRESS = ARGV.fetch(0, "127.0.0.2")

def named(name)
  Thread.new do
    Thread.current.name = name
    yield
  end
end

# Active Record's pool of that many connections. Where the gem is not installed, it is a class of its name, with its
# variables and its way to wait (activerecord-6.1, abstract/connection_pool.rb).
def active_record_pool(size)
  require "active_record"
  ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:", pool: size, checkout_timeout: 600)
  ActiveRecord::Base.connection_pool
rescue LoadError
  eval(<<-CODE, TOPLEVEL_BINDING, "/gems/activerecord-6.1.7/lib/active_record/connection_adapters/abstract/connection_pool.rb", 1)
    module ActiveRecord
      module ConnectionAdapters
        class Adapter
          def lease; @owner = Thread.current; self; end
        end

        class ConnectionPool
          include MonitorMixin

          class Queue
            def initialize(lock); @cond = lock.new_cond; end
            def wait_poll; @cond.wait(600); end
          end

          def initialize(size)
            super()
            @size, @connections, @available = size, [], Queue.new(self)
          end

          def connection
            synchronize do
              @available.wait_poll until @connections.size < @size
              @connections << Adapter.new.lease
              @connections.last
            end
          end
        end
      end
    end
  CODE
  ActiveRecord::ConnectionAdapters::ConnectionPool.new(size)
end

# Calls a block again and again in a thread that is known for one of a Puma's workers.
module Puma
  class ThreadPool
    def spawn_thread(i)
      named("puma srv tp 00#{i}") { loop { yield } }
    end
  end
end

# Computes in Ruby for that many seconds.
def compute(seconds)
  until_at = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  n = 0
  n += 1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) < until_at
  n
end

# Sleeps in the kernel with the GVL held, as an extension does that never heard of it: poll(2) of nothing through
# Kernel#syscall; on arm64, which has no poll, epoll_pwait on an empty set.
def keep_gvl(milliseconds)
  return syscall(7, 0, 0, milliseconds) if RUBY_PLATFORM.include?("x86_64")

  @epoll ||= syscall(20, 0)
  syscall(22, @epoll, "x" * 16, 1, milliseconds, 0, 8)
end

# A server in a process of its own that answers each line after some seconds.
def server(port, seconds)
  listener = TCPServer.new(ADDRESS, port)
  fork do
    loop do
      Thread.new(listener.accept) do |client|
        while client.gets
          sleep seconds
          client.write("ok\n")
        end
      end
    end
  end
  listener.close
rescue Errno::EADDRINUSE, Errno::EACCES => e
  puts "skip #{e.message}"
  exit!(0)
end

# Threads that ask a server for a line again and again, and do little else.
def clients(count, port)
  count.times do |i|
    named("worker-#{i}") do
      socket = TCPSocket.new(ADDRESS, port)
      loop do
        socket.write("work\n")
        socket.gets
        compute 0.001
      end
    end
  end
end

# Says that the program is loaded, and goes on when the test has got round to it: nothing is said of load in a program's
# first seconds, and many can wait for those to pass at the same time.
def wait_for_go
  puts "loaded"
  $stdin.gets || exit
end

# Returns when a thread waits in the method of that name.
def wait_until_in(thread, method)
  sleep 0.01 until thread.stop? && thread.backtrace.to_a.first.to_s.include?(method)
end

# Has two threads that hold a lock each, and wait in go.pop before they take the other's, wait for each other.
def let_deadlock(go, *threads)
  threads.each { |t| wait_until_in(t, "pop") }
  threads.each { go << 1 }
  threads.each { |t| wait_until_in(t, "synchronize") }
end

def ready
  puts "ready"
  sleep
end

# Says that the program is ready, and returns when the test has seen it for some samples, however long it took to attach.
def ready_and_seen
  puts "ready"
  $stdin.gets || exit
end

# An event loop for fibers (Fiber.set_scheduler, Ruby 3.0 and later). Sleeps and waits for descriptors go through it.
class EventLoop
  def initialize
    @wake = {}
    @waits = {}
  end

  def run
    until @wake.empty? && @waits.empty?
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      next_at = @wake.values.min
      IO.select(@waits.values, nil, nil, next_at && [next_at - now, 0].max)&.first.to_a.each do |io|
        fiber = @waits.key(io)
        @waits.delete(fiber)
        fiber.resume(1)
      end
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      @wake.select { |_, at| at <= now }.each_key do |fiber|
        @wake.delete(fiber)
        fiber.resume
      end
    end
  end
  alias close run

  def fiber(&block)
    Fiber.new(blocking: false, &block).tap(&:resume)
  end

  def kernel_sleep(seconds)
    block(:sleep, seconds)
  end

  def block(_blocker, seconds)
    @wake[Fiber.current] = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    Fiber.yield
    true
  end

  def unblock(_blocker, fiber)
    @wake[fiber] = 0
  end

  def io_wait(io, _events, _seconds)
    @waits[Fiber.current] = io
    Fiber.yield
  end
end

# Runs fibers of an event loop in a thread.
def event_loop(name)
  if RUBY_VERSION < "3"
    puts "skip Ruby #{RUBY_VERSION} has no fiber scheduler"
    exit!(0)
  end
  named(name) do
    Fiber.set_scheduler(EventLoop.new)
    yield
  end
end
