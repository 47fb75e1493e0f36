# The second half of parked.rb, loaded by it: evals, files, recursion, fibers, and the ways to wait.

# ---- eval

shape("eval") { eval("sleep") }
shape("eval with file and line") { eval("[1].each do\n  sleep\nend", binding, "templates/näme.erb", 42) }
shape("eval with negative line") { eval("\n\nsleep", binding, "negative.rb", -5) }
shape("eval with line 0") { eval("sleep", binding, "zero.rb", 0) }
shape("eval with large line") { eval("sleep", binding, "large.rb", 2_000_000) }
shape("eval with empty file") { eval("sleep", binding, "", 1) }
shape("eval with this file") { eval("sleep", binding, __FILE__, __LINE__) }
shape("eval in method") { Plain.new.instance_eval("with_block { eval('sleep') }", "inner.rb", 7) }
shape("eval of a def") { Plain.class_eval("def evaluated\n  with_block do\n    sleep\n  end\nend", "def.rb", 100); Plain.new.evaluated }
shape("eval nested") { eval("eval('eval(\"sleep\")')") }
shape("Binding#eval") { Plain.new.instance_eval { binding }.eval("sleep", "binding.rb", 3) }
shape("instance_eval") { Plain.new.instance_eval { sleep } }
shape("instance_exec") { Plain.new.instance_exec(1) { |x| [x].each { sleep } } }
shape("instance_eval string") { Plain.new.instance_eval("sleep") }
shape("class_eval") { Plain.class_eval { sleep } }
shape("class_exec") { Plain.class_exec(1) { |x| sleep } }
shape("module_eval string") { Outer.module_eval("sleep", "module.rb", 9) }
shape("iseq eval") { RubyVM::InstructionSequence.compile("[1].each { sleep }", "compiled.rb", "/nowhere/compiled.rb", 5).eval }

# ---- class bodies

shape("class body") do
  eval <<-RUBY, TOPLEVEL_BINDING, "bodies.rb", 1
    class ParkedBody
      sleep
    end
  RUBY
end
shape("nested class body") do
  eval <<-RUBY, TOPLEVEL_BINDING, "bodies.rb", 10
    module ParkedModule
      class Within
        class << self
          [1].each { sleep }
        end
      end
    end
  RUBY
end
shape("Class.new body") { Class.new(Plain) { sleep } }
shape("Module.new body") { Module.new { sleep } }
shape("Struct.new body") { Struct.new(:a) { sleep } }

# ---- files

def written(name, text)
  path = File.join(__dir__, name)
  File.write(path, text)
  path
end

shape("load") { load written("geladen äöü.rb", "def geladen\n  sleep\nend\n\n[1].each do\n  geladen\nend\n") }
shape("load wrapped") { load written("wrapped.rb", "module Loaded\n  def self.park\n    sleep\n  end\nend\nLoaded.park\n"), true }
shape("load with __END__") { load written("data.rb", "# a comment\n\n\nsleep\n__END__\ndata\n") }
shape("load through a link") do
  written("original.rb", "sleep\n")
  link = File.join(__dir__, "link.rb")
  File.delete(link) if File.symlink?(link)
  File.symlink("original.rb", link)
  load link
end

# ---- long methods and line tables: every line can park

LONG_LINES = [5, 54, 55, 100, 200, 300, 399]
lines = (1..400).map { |i| "  x += y * #{i}; sleep if n == #{i}" }
eval "def long(n)\n  x = 0; y = 1\n#{lines.join("\n")}\n  x\nend", TOPLEVEL_BINDING, "long.rb", 1
LONG_LINES.each { |n| shape("long method #{n}") { long(n) } }

tiny = (1..10).map { |i| "def tiny#{i}; #{"a = 1; " * i}sleep; end" }
eval tiny.join("\n"), TOPLEVEL_BINDING, "tiny.rb", 1
(1..10).each { |i| shape("tiny method #{i}") { send("tiny#{i}") } }

# One method of a line each for the sizes around the edges of the succinct position table (54 and 512 instructions).
[50, 53, 54, 55, 60, 500, 560, 570, 1080, 1090].each do |size|
  eval "def sized#{size}\n  a = 1\n#{"  a\n  a = a\n" * (size / 4)}  sleep\nend", TOPLEVEL_BINDING, "sized.rb", 1
  shape("sized method #{size}") { send("sized#{size}") }
end

# ---- recursion

def down(n)
  return sleep if n == 0
  down(n - 1)
end

def ping(n)
  n == 0 ? sleep : pong(n - 1)
end

def pong(n)
  [n].each { |m| ping(m) }
end

def rescued(n)
  raise "again" if n > 0
  sleep
rescue RuntimeError
  rescued(n - 1)
end

shape("recursion 100") { down(100) }
shape("recursion 1000") { down(1_000) }
shape("mutual recursion 300") { ping(300) }
shape("recursion of blocks") { f = ->(n) { n == 0 ? sleep : [n].map { f.(n - 1) } }; f.(200) }
shape("recursion in rescue") { rescued(20) }
shape("recursion of <=>") do
  klass = Struct.new(:depth) { include Comparable; def <=>(o); depth == 0 ? sleep : self.class.new(depth - 1) <=> o; end }
  [klass.new(50), klass.new(50)].max
end

# ---- fibers: the thread's frames are those of the fiber that runs; the resumers' are told apart

def resumers(*fibers)
  Thread.current.thread_variable_set(:fibers, fibers)
end

def root_fiber
  Fiber.current
end

shape("fiber") do
  root = root_fiber
  Fiber.new { resumers(root); [1].each { sleep } }.resume
end
shape("nested fibers") do
  root = root_fiber
  outer = Fiber.new do
    middle = Fiber.new do
      Fiber.new { resumers(middle, outer, root); sleep }.resume
    end
    middle.resume
  end
  outer.resume
end
shape("fiber after yield") do
  fiber = Fiber.new { Fiber.yield 1; Plain.new.nested }
  fiber.resume
  fiber.resume
end
shape("suspended fiber") do
  fiber = Fiber.new { [1].each { Fiber.yield } }
  fiber.resume
  sleep
end
shape("Enumerator") { [1].each_with_index.map { |x, i| sleep } }
shape("Enumerator#next") { Enumerator.new { |y| y << 1; sleep }.tap(&:next).next }
shape("Enumerator of C each") { [Plain.new].each.tap { |e| 1.times { e.next } }; sleep }
shape("Enumerator::Yielder") { Enumerator.new { |y| y.yield 1 }.each { |x| sleep } }
shape("lazy") { (1..Float::INFINITY).lazy.map { |x| x }.select { |x| sleep }.first }
shape("with_index") { %w[a].each.with_index(1) { |x, i| sleep } }
shape("enum_for") { Plain.new.enum_for(:each).each { sleep } }

# ---- the ways to wait

# Both ends are kept: the collector closes an end that nobody holds, and the other one wakes up.
KEPT = Queue.new
def kept(object)
  KEPT << object
  object
end

def new_pipe; kept(IO.pipe); end
def new_pair; kept(UNIXSocket.pair); end
def new_server(*args); kept(TCPServer.new(*args)); end

MUTEX = Mutex.new
MONITOR = Monitor.new
HELD = []
shape("holder of the mutex") { MUTEX.synchronize { HELD << 1; sleep } }
shape("holder of the monitor") { MONITOR.synchronize { HELD << 1; sleep } }
# Without sleeping: a thread that sleeps here would count as parked.
def held; Thread.pass until HELD.size == 2; end
shape("Mutex#lock") { held; MUTEX.lock }
shape("Mutex#synchronize") { held; MUTEX.synchronize { 1 } }
shape("Monitor#synchronize") { held; MONITOR.synchronize { 1 } }
shape("Monitor#enter") { held; MONITOR.enter }
shape("MonitorMixin") { Object.new.extend(MonitorMixin).synchronize { sleep } }
shape("sleep with a number") { sleep 100_000_000 }
shape("Kernel.sleep") { Kernel.sleep }
shape("Thread.stop") { Thread.stop }
shape("Queue#pop") { Queue.new.pop }
shape("Queue#shift in a loop") { queue = Queue.new; while (job = queue.shift); job.call; end }
shape("SizedQueue#push") { SizedQueue.new(1).tap { |q| q << 1 } << 2 }
shape("SizedQueue#pop") { SizedQueue.new(1).pop }
shape("ConditionVariable") { m = Mutex.new; m.synchronize { ConditionVariable.new.wait(m) } }
shape("ConditionVariable with timeout") { m = Mutex.new; m.synchronize { ConditionVariable.new.wait(m, 1_000_000) } }
shape("Monitor condition") { m = Monitor.new; c = m.new_cond; m.synchronize { c.wait } }
shape("Mutex#sleep") { m = Mutex.new; m.synchronize { m.sleep } }
JOINED = started("joined") { sleep }
shape("Thread#join") { JOINED.join }
shape("Thread#join with limit") { JOINED.join(1_000_000) }
shape("Thread#value") { JOINED.value }
shape("Thread.handle_interrupt") { Thread.handle_interrupt(RuntimeError => :never) { sleep } }
shape("Timeout") { Timeout.timeout(1_000_000) { sleep } }
shape("IO#read") { new_pipe[0].read }
shape("IO#gets") { new_pipe[0].gets }
shape("IO#readpartial") { new_pipe[0].readpartial(10) }
shape("IO#each_line") { new_pipe[0].each_line { 1 } }
shape("IO#sysread") { new_pipe[0].sysread(1) }
shape("IO#write") { new_pipe[1].write("x" * 1_000_000) }
shape("IO.select") { IO.select(new_pipe) }
shape("IO.select with timeout") { IO.select([new_pipe[0]], nil, nil, 1_000_000) }
shape("IO.copy_stream") { IO.copy_stream(new_pipe[0], new_pipe[1]) }
shape("TCPServer#accept") { new_server("127.0.0.1", 0).accept }
shape("UNIXSocket#recv") { new_pair[0].recv(10) }
shape("Socket#recvmsg") { new_pair[0].recvmsg }
shape("TCPSocket#gets") { s = new_server("127.0.0.1", 0); TCPSocket.new("127.0.0.1", s.addr[1]).gets }
shape("UDPSocket#recvfrom") { UDPSocket.new.tap { |s| s.bind("127.0.0.1", 0) }.recvfrom(10) }
shape("Process.wait") { io = IO.popen([*RUBY, "-e", "STDIN.read"], "r+"); Process.wait(io.pid) }
shape("IO.popen") { IO.popen([*RUBY, "-e", "STDIN.read"], "r+").read }
