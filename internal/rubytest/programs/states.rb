# A thread in each state that ddtop knows, and the state it is in.
#
#   states.rb [spin] [gc] [native] [stalled] [deadlock]
#
# The threads that wait are always there; an argument adds a group of threads that do something. Prints one line of
# JSON when all are in their states (see States in states.go), with main in STDIN.gets; the end of input or a line
# "quit" ends it. The thread "reporter", which prints, is not in it and ends. Runs on 2.5 and later.
require "json"
require "socket"
require "monitor"
require "io/wait"
require "rbconfig"

Thread.abort_on_exception = true
$stdout.sync = true

X86 = RbConfig::CONFIG["host_cpu"] == "x86_64"
GETTID = X86 ? 186 : 178

# Sleeps in the kernel for 200 ms: poll of nothing, on arm64 (which has no poll) epoll_pwait on an empty set.
def sleep_in_system_call
  return syscall(7, 0, 0, 200) if X86
  @epoll ||= syscall(20, 0)
  syscall(22, @epoll, "x" * 16, 1, 200, 0, 8)
end

def native_thread_id
  Thread.current.respond_to?(:native_thread_id) ? Thread.current.native_thread_id : syscall(GETTID)
end

THREADS = [] # [thread, what is expected of it]
KEPT = Queue.new # what must not be collected: both ends of pipes

# Starts a thread whose state is one of states; those of must are seen when it is watched for a second or two.
def thread(name, states, expected = {}, &body)
  states = Array(states)
  t = Thread.new do
    Thread.current.name = name
    Thread.current.thread_variable_set(:tid, native_thread_id)
    body.call
  end
  THREADS << [t, { states: states, must: states.first(1) }.merge(expected)]
  t
end

def kept(object)
  KEPT << object
  object
end

def child
  # One of another machine needs its emulator before it.
  kept(IO.popen([*ENV["DDTOP_TEST_EMULATOR"], RbConfig.ruby, "--disable=gems", "-e", "STDIN.read"], "r+"))
end

# ---- sleeping

thread("sleep-forever", "sleeping", timed: false) { sleep }
thread("sleep-timed", "sleeping", timed: true) { sleep 1_000_000 }
thread("stop", "sleeping", timed: false) { Thread.stop }
thread("mutex-sleep", "sleeping", timed: false) { m = Mutex.new; m.synchronize { m.sleep } }

# ---- lock

ready = Queue.new
mutex = Mutex.new
monitor = Monitor.new
thread("holds-mutex", "sleeping", timed: false) { mutex.synchronize { ready << 1; sleep } }
thread("holds-monitor", "sleeping", timed: false) { monitor.synchronize { ready << 1; sleep } }
2.times { ready.pop }
thread("lock-mutex", "lock", object: "Mutex", holder: "holds-mutex") { mutex.lock }
thread("lock-synchronize", "lock", object: "Mutex", holder: "holds-mutex") { mutex.synchronize { 1 } }
# Before 2.7 a Monitor is written in Ruby, around a Mutex.
thread("lock-monitor", "lock", object: RUBY_VERSION < "2.7" ? "Mutex" : "Monitor", holder: "holds-monitor") { monitor.synchronize { 1 } }

# ---- parked

joined = thread("joined", "sleeping", timed: false) { sleep }
thread("queue-pop", "parked", object: "Queue") { Queue.new.pop }
thread("sized-queue-push", "parked", object: "SizedQueue") { SizedQueue.new(1).tap { |q| q << 1 } << 2 }
thread("sized-queue-pop", "parked", object: "SizedQueue") { SizedQueue.new(1).pop }
thread("condition-variable", "parked", object: "ConditionVariable") do
  m = Mutex.new
  m.synchronize { ConditionVariable.new.wait(m) }
end
thread("condition-variable-timed", "parked", object: "ConditionVariable", timed: true) do
  m = Mutex.new
  m.synchronize { ConditionVariable.new.wait(m, 1_000_000) }
end
thread("monitor-condition", "parked", object: "ConditionVariable") do
  m = Monitor.new
  c = m.new_cond
  m.synchronize { c.wait }
end
thread("join", "parked", object: "Thread", holder: "joined") { joined.join }
thread("join-timed", "parked", object: "Thread", holder: "joined", timed: true) { joined.join(1_000_000) }
thread("value", "parked", object: "Thread", holder: "joined") { joined.value }

# ---- io

reader, = kept(IO.pipe)
thread("read-pipe", "io", fds: [reader.fileno], kind: "pipe") { reader.read }
_, writer = kept(IO.pipe)
thread("write-pipe", "io", fds: [writer.fileno], kind: "pipe") { writer.write("x" * 4_000_000) }

server = kept(TCPServer.new("127.0.0.1", 0))
client = kept(TCPSocket.new("127.0.0.1", server.addr[1]))
kept(server.accept)
address = ->(a) { "#{a.ip_address}:#{a.ip_port}" }
thread("read-tcp", "io", fds: [client.fileno], kind: "tcp", remote: address[client.remote_address],
                         local: address[client.local_address]) { client.read(1) }
thread("accept", "io", fds: [server.fileno], kind: "listener", local: address[server.local_address]) { server.accept }

begin
  server6 = kept(TCPServer.new("::1", 0))
  client6 = kept(TCPSocket.new("::1", server6.addr[1]))
  thread("read-tcp6", "io", fds: [client6.fileno], kind: "tcp", remote: "[::1]:#{server6.addr[1]}") { client6.gets }
rescue SystemCallError
  nil # no IPv6 on this machine
end

near, = kept(UNIXSocket.pair)
thread("read-unix", "io", fds: [near.fileno], kind: "unix") { near.recv(1) }
unix_path = File.join(__dir__, "socket")
unix_server = kept(UNIXServer.new(unix_path))
unix_client = kept(UNIXSocket.new(unix_path))
thread("read-unix-path", "io", fds: [unix_client.fileno], kind: "unix", remote: unix_path) { unix_client.read(1) }
thread("accept-unix", "io", fds: [unix_server.fileno], kind: "listener") { kept(unix_server.accept); unix_server.accept }

udp = kept(UDPSocket.new)
udp.bind("127.0.0.1", 0)
thread("read-udp", "io", fds: [udp.fileno], kind: "udp", local: address[udp.local_address]) { udp.recvfrom(1) }

selected = [kept(IO.pipe)[0], kept(IO.pipe)[0]]
thread("select", "io", fds: selected.map(&:fileno), kind: "pipe") { IO.select(selected) }
thread("select-timed", "io", fds: selected.map(&:fileno), kind: "pipe", timed: true) { IO.select(selected, nil, nil, 1_000_000) }
waited, = kept(IO.pipe)
thread("wait-readable", "io", fds: [waited.fileno], kind: "pipe") { waited.wait_readable }

# A listener whose backlog is full drops what wants to connect: connect waits (for minutes, then again).
full = kept(Socket.new(:INET, :STREAM))
full.bind(Addrinfo.tcp("127.0.0.1", 0))
full.listen(0)
8.times do
  socket = kept(Socket.new(:INET, :STREAM))
  case socket.connect_nonblock(full.local_address, exception: false)
  when :wait_writable
    # Done at once means that there still was room; refused would be an error.
    break unless socket.wait_writable(0.2)
  end
end
connecting = kept(Socket.new(:INET, :STREAM))
thread("connect", "io", fds: [connecting.fileno], kind: "tcp", remote: address[full.local_address]) do
  begin
    connecting.connect(full.local_address)
  rescue Errno::ETIMEDOUT
    retry
  end
end

waited_child = child
thread("process-wait", "io", child: waited_child.pid) { Process.wait(waited_child.pid) }
# Up to 3.2 a thread that waits for a child looks like one that sleeps, and here its receiver doesn't tell either.
command_in, = kept(IO.pipe)
command_says, command_out = kept(IO.pipe)
thread("system", "io") do
  system(*ENV["DDTOP_TEST_EMULATOR"], RbConfig.ruby, "--disable=gems", "-e", "STDOUT.sync = true; p $$; STDIN.read", in: command_in, out: command_out)
end
THREADS.last[1][:child] = command_says.gets.to_i
detached_child = child
detached = Process.detach(detached_child.pid)
detached.name = "detach" # a thread without a Ruby frame
THREADS << [detached, { states: ["io"], must: ["io"], child: detached_child.pid }]
read_child = child
thread("read-child", "io", fds: [read_child.fileno], kind: "pipe") { read_child.read }

# ---- all of these have to be asleep before anything runs

last = nil
same = 0
15_000.times do
  now = THREADS.map { |t, _| [t.status, t.backtrace] }
  same = now == last && now.all? { |status, _| status == "sleep" } ? same + 1 : 0
  break if same == 5
  last = now
  sleep 0.002
end
raise "not asleep: #{THREADS.map { |t, _| [t.name, t.status] }.inspect}" if same < 5

# Up to 3.2 one of the threads that sleep outside of a system call of their own (any of them, in turn) also keeps the
# time for those that compete for the GVL: it wakes up at each time slice and queues for the GVL to go to sleep again
# (thread_pthread.c, native_ppoll_sleep).
if RUBY_VERSION.to_f < 3.3 && ARGV.any?
  THREADS.each do |_, expected|
    next unless (expected[:states] & %w[sleeping lock parked]).any? || expected[:child]
    expected[:states] |= %w[waiting running]
  end
end

# ---- what runs, on request

# What competes for the GVL begins once the report is ready: beside it, the report would wait for turns.
started = Queue.new
go = Queue.new
begins = lambda do
  started << 1
  go.pop
end
held = %w[running waiting]
groups = {
  "deadlock" => lambda do
    a = Mutex.new
    b = Mutex.new
    both = Queue.new
    cross = Queue.new
    thread("deadlock-a", "lock", object: "Mutex", holder: "deadlock-b") { a.synchronize { both << 1; cross.pop; b.lock } }
    thread("deadlock-b", "lock", object: "Mutex", holder: "deadlock-a") { b.synchronize { both << 1; cross.pop; a.lock } }
    2.times { both.pop }
    2.times { cross << 1 }
    Thread.pass until THREADS.last(2).all? { |t, _| t.status == "sleep" && t.backtrace[0] =~ /lock/ }
  end,
  "spin" => lambda do
    2.times do |i|
      thread("spin-#{i}", held, must: held) do
        begins.call
        n = 0
        n += 1 while n >= 0
      end
    end
  end,
  "gc" => lambda do
    thread("gc", %w[gc running waiting]) do
      begins.call
      loop { GC.start }
    end
  end,
  "native" => lambda do
    require "zlib" # which a Ruby with musl does not have
    thread("native-read", %w[native running waiting]) do
      random = File.open("/dev/urandom")
      buffer = "".b
      begins.call
      loop { random.sysread(32 << 20, buffer) }
    end
    thread("native-zlib", %w[native running waiting gc]) do
      zeros = "\0" * (64 << 20)
      begins.call
      loop { Zlib::Deflate.deflate(zeros, 9) }
    end
  end,
  # Kernel#syscall keeps the lock, as a C extension does that never heard of it.
  "stalled" => lambda do
    thread("stalled", %w[stalled sleeping running waiting], timed: true) do
      begins.call
      loop do
        sleep_in_system_call
        sleep 0.02
      end
    end
  end,
}
groups.each { |name, start| start.call if ARGV.include?(name) }
raise "unknown group in #{ARGV}" unless (ARGV - groups.keys).empty?
active = { "spin" => 2, "gc" => 1, "native" => 2, "stalled" => 1, "deadlock" => 0 }
competing = ARGV.sum { |name| active.fetch(name) }
competing.times { started.pop }

Thread.main.name = "main" if Thread.main.name.nil?
Thread.main.thread_variable_set(:tid, native_thread_id)
THREADS << [Thread.main, { states: ["io"], must: ["io"], fds: [0], kind: "pipe" }]

Thread.new do
  Thread.current.name = "reporter"
  # Not before main is in its read.
  Thread.pass until Thread.main.status == "sleep" && Thread.main.backtrace[0] =~ /gets/
  report = JSON.generate(
    ruby: RUBY_VERSION, pid: Process.pid,
    # The thread of Process.detach runs no code of ours: Ruby knows its id from 3.1 on.
    threads: THREADS.map { |t, e| { name: t.name, tid: t.thread_variable_get(:tid) || (t.native_thread_id if t.respond_to?(:native_thread_id)) }.merge(e) }
  )
  competing.times { go << 1 }
  puts report
end
while (line = STDIN.gets)
  break if line.chomp == "quit"
end
exit!(0)
