# Threads that each handle an exception in another way, and say what their own $! is: its class, and the message that it was made with.
require "json"
require "timeout"
TOLD = {}
LOCK = Mutex.new
MESSAGE = Exception.instance_method(:to_s)

# tell has the thread say what it handles, and stay there. made: the message is a text; with false, or a text that it is told as.
def tell(made = true)
  e = $!
  name = e && Module.instance_method(:name).bind(e.class).call
  name = nil unless name && name.match?(/\A[[:upper:]][[:word:]]*(::[[:upper:]][[:word:]]*)*\z/)
  text = made == true && e ? MESSAGE.bind(e).call : made
  LOCK.synchronize { TOLD[Thread.current.name] = name && [name, text && text != name ? text.encode("UTF-8") : ""] }
  sleep
end

class Plain < StandardError; end
class Odd < StandardError
  def message
    raise "message was called"
  end

  def to_s
    "told by a method"
  end
end
class Pretender < StandardError
  def self.name
    "Somebody"
  end
end
module Extra; end
class Größe < StandardError; end
class Many < StandardError
  def initialize(text)
    60.times { |i| instance_variable_set("@v#{i}", i) }
    super(text)
  end
end
module Deep
  module Est
    class Error < RuntimeError; end
  end
end

def fail_with(message, of = Plain)
  raise of, message
end

def rescued(message, made = true, of: Plain)
  fail_with(message, of)
rescue StandardError
  tell(made)
end

def deep(n)
  n == 0 ? tell : deep(n - 1)
end
LONG = ("0123456789" * 30_000).freeze
BODIES = {
  "none" => -> { tell },
  "rescue" => -> { rescued("plain") },
  "no message" => -> { begin raise Plain; rescue Plain; tell; end },
  "empty message" => -> { rescued("") },
  "string" => -> { begin raise "of a String"; rescue; tell; end },
  "nested" => -> { begin fail_with("outer"); rescue Plain; begin fail_with("inner"); rescue Plain; tell; end; end },
  "nested, over" => -> { begin fail_with("outer"); rescue Plain; begin fail_with("inner"); rescue Plain; 1; end; tell; end },
  "nested, in a method" => -> { begin fail_with("outer"); rescue Plain; deep(40); end },
  "rescued, over" => -> { begin fail_with("over"); rescue Plain; 1; end; tell },
  "ensure, flying" => -> { begin fail_with("flies"); ensure tell; end },
  "ensure, quiet" => -> { begin 1; ensure tell; end },
  "ensure, quiet in a rescue" => -> { begin fail_with("outer"); rescue Plain; begin 1; ensure tell; end; end },
  "ensure, flying in a rescue" => -> { begin fail_with("outer"); rescue Plain; begin fail_with("inner"); ensure tell; end; end },
  "ensures in one another" => -> { begin begin fail_with("both"); ensure 1; end; ensure [1].each { tell }; end },
  "ensure, returning" => -> { [1].each { |_| begin next; ensure tell; end } },
  "ensure, thrown through" => -> { catch(:x) { begin throw :x; ensure tell; end } },
  "ensure, thrown through in a rescue" => -> { begin fail_with("outer"); rescue Plain; catch(:x) { begin throw :x; ensure tell; end }; end },
  "ensure, broken out of" => -> { loop { begin break; ensure tell; end } },
  "raised again" => -> { begin begin fail_with("again"); rescue Plain; raise; end; rescue Plain; tell; end },
  "another raised" => -> { begin begin fail_with("first"); rescue Plain; raise Odd, "second"; end; rescue Odd; tell("second"); end },
  "cause" => -> { begin raise Plain, "caused", cause: Deep::Est::Error.new("by this"); rescue Plain; tell; end },
  "retry" => -> { n = 0; begin n += 1; fail_with("tried") if n < 3; tell; rescue Plain; retry; end },
  "retried, in the rescue" => -> { n = 0; begin n += 1; fail_with("try #{n}"); rescue Plain; retry if n < 3; tell; end },
  "else" => -> { begin 1; rescue Plain; 2; else tell; end },
  "modifier" => -> { (fail_with("modified") rescue tell) },
  "modifier, over" => -> { (fail_with("modified") rescue 1); tell },
  "block of a rescue" => -> { begin fail_with("block"); rescue Plain; [1].each { |_| { a: 1 }.each { tell } }; end },
  "lambda made elsewhere" => -> { l = -> { tell }; begin fail_with("lambda"); rescue Plain; l.call; end },
  "eval" => -> { begin fail_with("eval"); rescue Plain; eval("tell"); end },
  "define_method" => -> { o = Object.new; o.define_singleton_method(:x) { tell }; begin fail_with("method"); rescue Plain; o.x; end },
  "fiber of a rescue" => -> { begin fail_with("outside"); rescue Plain; Fiber.new { tell }.resume; end },
  "fiber with its own" => -> { begin fail_with("outside"); rescue Plain; Fiber.new { rescued("inside") }.resume; end },
  "behind a fiber" => lambda do
    f = Fiber.new { begin fail_with("in the fiber"); rescue Plain; Fiber.yield; end }
    f.resume
    tell
  end,
  "enumerator" => -> { e = Enumerator.new { |y| rescued("inside"); y << 1 }; e.next },
  "thread of a rescue" => -> { begin fail_with("outside"); rescue Plain; sleep; end },
  "of another thread" => lambda do
    me = Thread.current
    Thread.new { Thread.pass until me.status == "sleep"; me.raise(Plain, "from outside") }
    begin sleep; rescue Plain; tell; end
  end,
  "huge" => -> { rescued(LONG) },
  "200 bytes" => -> { rescued("x" * 200) },
  "201 bytes" => -> { rescued("x" * 201) },
  "cut within a character" => -> { rescued("ab" + "é" * 150) },
  "shared" => -> { rescued(LONG[299_900..-1]) },
  "shared beginning" => -> { rescued(LONG[0, 150]) },
  "frozen" => -> { rescued("as it is".freeze) },
  "lines" => -> { rescued("ERROR:  a\nLINE 1:\tb\e[31m") },
  "binary" => -> { rescued("bin\x00\xff".dup.force_encoding("BINARY"), "bin\u0000\\xFF") },
  "EUC-JP" => -> { rescued("日本".encode("EUC-JP"), "日本") },
  "UTF-16" => -> { rescued("日本".encode("UTF-16LE"), "日本") },
  "number" => -> { rescued(7, false) },
  "symbol" => -> { rescued(:symbol, false) },
  "array" => -> { rescued([1, "two"], false) },
  "object" => -> { rescued(Object.new, false) },
  "nil" => -> { begin raise Plain.new(nil); rescue Plain; tell; end },
  "kind of String" => -> { rescued(Class.new(String).new("of a kind")) },
  "changed" => -> { m = +"first"; begin raise Plain, m; rescue Plain; m << ", second"; tell; end },
  "method for the message" => -> { rescued("as it was made", "as it was made", of: Odd) },
  "pretender" => -> { rescued("anybody", of: Pretender) },
  "singleton" => -> { begin raise Plain.new("extended").extend(Extra); rescue Plain; tell; end },
  "singleton method" => -> { e = Plain.new("defined"); def e.message; raise; end; begin raise e; rescue Plain; tell; end },
  "exception" => -> { begin raise Plain.new("first").exception("second"); rescue Plain; tell; end },
  "frozen exception" => -> { e = Plain.new("hard"); e.set_backtrace([]); begin raise e.freeze; rescue Plain; tell; end },
  "variables" => -> { rescued("many", of: Many) },
  "names" => -> { rescued("name", of: Größe) },
  "deep name" => -> { rescued("name", of: Deep::Est::Error) },
  "anonymous" => -> { rescued("nobody", of: Class.new(StandardError)) },
  "in an anonymous module" => -> { m = Module.new; m.const_set(:Inner, Class.new(StandardError)); rescued("nobody", of: m.const_get(:Inner)) },
  "system error" => -> { begin raise Errno::ENOENT, "a file"; rescue SystemCallError; tell; end },
  "wait readable" => -> { r, w = IO.pipe; begin r.read_nonblock(1); rescue IO::WaitReadable; tell; ensure w.close; end },
  "name error" => -> { begin nobody_knows_it; rescue NameError; tell(false); end },
  "no method" => -> { begin nil.nobody_knows_it; rescue NoMethodError; tell(false); end },
  "key error" => -> { begin({}.fetch(:x)); rescue KeyError; tell; end },
  "zero" => -> { begin 1 / 0; rescue ZeroDivisionError; tell; end },
  "conversion" => -> { begin Integer("x"); rescue ArgumentError; tell; end },
  "stop iteration" => -> { begin [].each.next; rescue StopIteration; tell; end },
  "stack" => -> { f = ->(n) { f.(n + 1) + 1 }; begin f.(0); rescue SystemStackError; tell; end },
  "exit" => -> { begin exit; rescue SystemExit; tell; end },
  "exit, in an ensure" => -> { begin exit(3); ensure tell; end },
  "interrupt" => -> { begin raise Interrupt; rescue Interrupt; tell; end },
  "timeout" => -> { begin Timeout.timeout(0.01) { sleep }; rescue Timeout::Error; tell; end },
  "in a timeout" => -> { begin fail_with("outer"); rescue Plain; Timeout.timeout(1 << 20) { tell }; end },
  "not caught by throw" => -> { begin throw :nobody; rescue UncaughtThrowError; tell(false); end },
  "rescue around C" => -> { begin [3, 1].sort_by { fail_with("sorted") }; rescue Plain; [2].map { [1].each_with_index { tell } }; end },
  "class body" => -> { begin fail_with("body"); rescue Plain; Class.new { tell }; end },
}.freeze
THREADS = BODIES.map { |name, body| Thread.new { Thread.current.name = name; Thread.current.report_on_exception = false; body.call } }
THREADS << Thread.new { Thread.current.name = "killed"; begin sleep; ensure tell; end }
Thread.pass until THREADS.all? { |t| t.status == "sleep" } # but for the last one, those that have told
THREADS.last.kill
Thread.pass until TOLD.size == BODIES.size # all but "thread of a rescue", and "killed"
Thread.pass until THREADS.all? { |t| t.status == "sleep" || t.status == "aborting" }

def report
  TOLD["main"] = $! && [$!.class.name, $!.to_s]
  TOLD["thread of a rescue"] = %w[Plain outside]
  puts JSON.generate(TOLD)
  $stdout.flush
end
Thread.current.name = "main"
at_exit do
  report
  while (line = $stdin.gets)
    GC.start if line.chomp == "gc"
    GC.compact if line.chomp == "compact" && GC.respond_to?(:compact)
    report
  end
  $stdout.flush
  exit!(0)
end
$stderr.reopen(File::NULL)
raise Plain, "at the end"
