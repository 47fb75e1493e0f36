# Threads parked in every shape of stack that Ruby makes, and Ruby's own word about each of them.
#
# Prints one line of JSON once all threads are parked (see Truth in truth.go), then blocks in STDIN.gets. A line
# "truth" prints it again, "gc" collects garbage first, "compact" compacts the heap first (2.7 and later), "quit" or
# the end of input ends the program. Threads are found by name; the thread "reporter" writes the truth and is not in
# it. Runs on 2.5 and later; what a release lacks is left out.
require "json"
require "socket"
require "monitor"
require "fiber"
require "timeout"
require "forwardable"
require "delegate"
require "rbconfig"

Thread.abort_on_exception = true
$stdout.sync = true

# How to start this Ruby once more: one of another machine needs its emulator before it.
RUBY = [*ENV["DDTOP_TEST_EMULATOR"], RbConfig.ruby, "--disable=gems"]
SHAPES = {}

def shape(name, &body)
  raise "two shapes #{name}" if SHAPES.key?(name)
  SHAPES[name] = body
end

# Kernel#syscall(gettid): releases before 3.1 don't say the native thread id themselves.
GETTID = { "x86_64" => 186, "aarch64" => 178 }[RbConfig::CONFIG["host_cpu"]]

def native_thread_id
  return Thread.current.native_thread_id if Thread.current.respond_to?(:native_thread_id)
  GETTID ? syscall(GETTID) : nil
end

def started(name, &body)
  Thread.new do
    Thread.current.name = name
    Thread.current.thread_variable_set(:tid, native_thread_id)
    body.call
  end
end

# ---- blocks, procs, methods

shape("block") { [1].each { |x| sleep } }
shape("block in block") { [1].each { [2].map { { a: 1 }.each { |k, v| sleep } } } }
shape("proc call") { proc { |x| sleep }.call(1) }
shape("proc yield") { proc { sleep }.yield }
shape("proc []") { lambda { |x| sleep }[1] }
shape("proc ===") { case 5 when ->(x) { sleep } then 1 end }
shape("curry") { ->(a, b) { sleep }.curry[1][2] }
shape("stabby lambda") { (-> { -> { sleep }.() }).call }
shape("symbol to_proc") do
  object = Object.new
  def object.park; sleep; end
  [object].each(&:park)
end

class Plain
  def call; sleep; end
  def with_block; yield; end
  def nested; with_block { with_block { with_block { sleep } } }; end
  define_method(:defined) { |x = 1| sleep }
  define_method(:defined_block) { |&b| [1].each { |x| b.call(x) } }
  def splat(*args, key: 1, **options, &block); block.call(*args, **options); end
  def default(x = sleep); x; end
  def keyword(x: (sleep)); x; end
  def called?; sleep; end
  def called!; sleep; end
  def value=(x); sleep; end
  def [](x); sleep; end
  def []=(x, y); sleep; end
  def +(other); sleep; end
  def -@; sleep; end
  def !; sleep; end
  def =~(other); sleep; end
  def to_s; sleep; end
  def to_str; sleep; end
  def to_proc; sleep; end
  def each; yield 1; end
  include Enumerable
  alias_method :aliased, :call
  alias other_name nested
  private def hidden; sleep; end
  def send_hidden; send(:hidden); end
end

shape("instance method") { Plain.new.call }
shape("yield") { Plain.new.nested }
shape("alias_method") { Plain.new.aliased }
shape("alias with blocks") { Plain.new.other_name }
shape("define_method") { Plain.new.defined }
shape("define_method with block") { Plain.new.defined_block { sleep } }
shape("splat and keywords") { Plain.new.splat(1, 2, key: 3, other: 4) { |*a, **o| sleep } }
shape("default argument") { Plain.new.default }
shape("default keyword") { Plain.new.keyword }
shape("method?") { Plain.new.called? }
shape("method!") { Plain.new.called! }
shape("method=") { Plain.new.value = 1 }
shape("method []") { Plain.new[1] }
shape("method []=") { Plain.new[1] = 2 }
shape("method +") { Plain.new + 1 }
shape("method -@") { -Plain.new }
shape("method !") { !Plain.new }
shape("method =~") { Plain.new =~ 1 }
shape("interpolation") { "#{Plain.new}" }
shape("to_str from C") { "a" + Plain.new }
shape("to_proc from call") { [1].each(&Plain.new) }
shape("Enumerable") { Plain.new.map { |x| sleep } }
shape("Enumerable with C block") { Plain.new.each_slice(1) { |x| sleep } }
shape("send") { Plain.new.send(:call) }
shape("__send__") { Plain.new.__send__(:call) }
shape("public_send") { Plain.new.public_send(:call) }
shape("private through send") { Plain.new.send_hidden }
shape("Method#call") { Plain.new.method(:call).call }
shape("Method#to_proc") { [1].each(&Plain.new.method(:value=)) }
shape("UnboundMethod") { Plain.instance_method(:call).bind(Plain.new).call }
shape("define_method with Method") do
  Class.new(Plain) { define_method(:copied, Plain.instance_method(:call)) }.new.copied
end

# ---- classes and modules

module Outer
  module Inner
    class Leaf
      def park; sleep; end
      def self.park; sleep; end
      class << self
        def opened; yield; end
      end
    end
  end

  def self.module_method; sleep; end

  module_function

  def function; sleep; end
end

shape("Outer::Inner::Leaf#park") { Outer::Inner::Leaf.new.park }
shape("Outer::Inner::Leaf.park") { Outer::Inner::Leaf.park }
shape("class << self") { Outer::Inner::Leaf.opened { sleep } }
shape("module method") { Outer.module_method }
shape("module_function") { Outer.function }
shape("inherited singleton") { Class.new(Outer::Inner::Leaf).park }

module Extra
  def call; super; end
  def mixed; sleep; end
end

module Before
  def call; [1].each { super() }; end
end

class Child < Plain
  include Extra
  prepend Before
  def call; super; end
end

class Implicit < Plain
  define_method(:call) { super() }
end

shape("super, include, prepend") { Child.new.call }
shape("super in define_method") { Implicit.new.call }
shape("module's method") { Child.new.mixed }
shape("extend") { Object.new.extend(Extra).mixed }
shape("extend self") { Module.new { extend self; def own; sleep; end }.own }
shape("singleton method") do
  object = Plain.new
  def object.only; [1].each { sleep }; end
  object.only
end
shape("define_singleton_method") { Plain.new.tap { |o| o.define_singleton_method(:single) { sleep } }.single }
shape("singleton of class instance") do
  klass = Class.new
  class << klass
    define_method(:meta) { sleep }
  end
  klass.meta
end
shape("anonymous class") { Class.new { def nameless; sleep; end }.new.nameless }
shape("anonymous singleton") { Class.new { def self.nameless; sleep; end }.nameless }
shape("anonymous module") { Class.new { include Module.new { def nameless; sleep; end } }.new.nameless }
shape("class in anonymous") do
  outer = Class.new
  outer.const_set(:Within, Class.new { def call; sleep; end })
  outer::Within.new.call
end
shape("named later") do
  klass = Class.new { def call; sleep; end }
  Object.const_set(:NamedLater, klass)
  klass.new.call
end
shape("class with own name") { Class.new { def self.name; "Liar"; end; def self.to_s; "Liar"; end; def call; sleep; end }.new.call }
shape("Struct") { Struct.new(:a) { def park; each { |x| sleep }; end }.new(1).park }
NamedStruct = Struct.new(:a) { def park; sleep; end }
shape("named Struct") { NamedStruct.new(1).park }
shape("initialize") { Class.new { def initialize; sleep; end }.new }
shape("BasicObject") { Class.new(BasicObject) { def park; ::Kernel.sleep; end }.new.park }

class Ghost
  def method_missing(name, *args, &block)
    return super unless name == :ghostly
    block.call
  end

  def respond_to_missing?(name, all = false)
    sleep if name == :asked
    name == :ghostly
  end

  def self.const_missing(name); sleep; end
  def self.inherited(klass); sleep if self == Ghost; end
  def self.method_added(name); sleep if name == :late; end
end
module Hook
  def self.included(base); sleep; end
  def self.extended(base); sleep; end
end
shape("method_missing") { Ghost.new.ghostly { sleep } }
shape("respond_to_missing?") { Ghost.new.respond_to?(:asked) }
shape("const_missing") { Ghost::Nowhere }
shape("inherited") { Class.new(Ghost) }
shape("method_added") { Ghost.class_eval { def late; end } }
shape("included") { Class.new { include Hook } }
shape("extended") { Object.new.extend(Hook) }

class Forwarding
  extend Forwardable
  def_delegators :@target, :call
  def initialize; @target = Plain.new; end
end
shape("Forwardable") { Forwarding.new.call }
shape("SimpleDelegator") { SimpleDelegator.new(Plain.new).call }

class Ordered
  include Comparable
  attr_reader :value
  def initialize(value); @value = value; end
  def <=>(other); sleep; end
  def coerce(other); sleep; end
  def hash; sleep; end
  def succ; sleep; end
  def to_ary; sleep; end
  def ===(other); sleep; end
end
shape("Comparable") { Ordered.new(1) < Ordered.new(2) }
shape("sort by <=>") { [Ordered.new(1), Ordered.new(2)].sort }
shape("max by <=>") { [Ordered.new(1), Ordered.new(2)].max }
shape("coerce") { 1 + Ordered.new(1) }
shape("hash key") { { Ordered.new(1) => 1 } }
shape("to_ary") { a, b = Ordered.new(1) }
shape("flatten") { [Ordered.new(1)].flatten }
shape("case ===") { case 1 when Ordered.new(1) then 2 end }

module Shouting
  refine String do
    def shout; sleep; end
    def upcase; [1].each { super }; sleep; end
  end
end
using Shouting
shape("refinement") { "a".shout }
shape("refined upcase") { "a".upcase }

class Größe
  def größe; sleep; end
  def 日本語(&block); block.call; end
  def self.straße; sleep; end
end
shape("größe") { Größe.new.größe }
shape("поток 線程") { Größe.new.日本語 { sleep } }
shape("straße") { Größe.straße }
shape("odd method name") do
  Plain.send(:define_method, "with \"quotes\", spaces\tand\nlines") { sleep }
  Plain.new.send("with \"quotes\", spaces\tand\nlines")
end
shape("two\nlines and \"quotes\"") { sleep }
shape("x" * 100) { sleep }
shape("long method name") do
  Plain.send(:define_method, "m" * 600) { sleep }
  Plain.new.send("m" * 600)
end

# ---- functions in C, with and without blocks

shape("map") { [1].map { sleep } }
shape("each_with_index") { [1].each_with_index { |x, i| sleep } }
shape("each_with_object") { [1].each_with_object([]) { |x, m| sleep } }
shape("inject") { [1, 2].inject { |a, b| sleep } }
shape("sort") { [2, 1].sort { |a, b| sleep } }
shape("sort_by") { [2, 1].sort_by { |x| sleep } }
shape("min_by") { [2, 1].min_by { |x| sleep } }
shape("group_by") { (1..2).group_by { |x| sleep } }
shape("flat_map") { [1].flat_map { sleep } }
shape("select, reject") { [1].select { [2].reject { sleep } } }
shape("any?") { [1].any? { sleep } }
shape("zip") { [1].zip([2]) { sleep } }
shape("each_slice, each_cons") { (1..4).each_slice(2) { (1..4).each_cons(2) { sleep } } }
shape("Array.new") { Array.new(1) { sleep } }
shape("Hash default") { Hash.new { |h, k| sleep }[1] }
shape("Hash methods") { { a: 1 }.each_pair { { b: 1 }.map { { c: 1 }.transform_values { sleep } } } }
shape("fetch") { {}.fetch(:a) { sleep } }
shape("Range#each, step") { (1..2).each { (1..2).step(1) { sleep } } }
shape("times, upto, step") { 2.times { 1.upto(2) { 1.step(2) { 2.downto(1) { sleep } } } } }
shape("String") { "ab".each_char { "ab".gsub(/a/) { "a\n".each_line { "a".scan(/a/) { sleep } } } } }
shape("catch") { catch(:done) { catch { sleep } } }
shape("loop") { loop { loop { sleep } } }
shape("tap") { 1.tap { |x| 2.tap { sleep } } }
shape("yield_self") { 1.yield_self { |x| sleep } }
shape("then") { 1.then { |x| sleep } } if 1.respond_to?(:then)
shape("composition") { (proc { |x| x } >> proc { |x| sleep }).call(1) } if Proc.method_defined?(:>>)
shape("filter_map") { [1].filter_map { sleep } } if Array.method_defined?(:filter_map)
shape("Integer()") { Integer("1"); Array(1).each { sleep } }
shape("format") { format("%s", Plain.new) }
shape("Marshal.load") { Marshal.load(Marshal.dump([1]), proc { |x| sleep }) }
shape("ObjectSpace") { ObjectSpace.each_object(Class) { sleep } }
shape("Dir and IO blocks") { Dir.chdir("/") { File.open(__FILE__.start_with?("/") ? __FILE__ : File::NULL) { sleep } } }
shape("method reference chain") do
  [3, 1, 2]
    .map { |x| x + 1 }
    .select { |x| x > 1 }
    .each do |x|
      sleep(
        100_000_000
      )
    end
end
shape("multi-line call") do
  format(
    "%s %s %s",
    1,
    [1].map { |x|
      x +
        1
    },
    sleep
  )
end
shape("heredoc") do
  <<-TEXT
    one
    #{[1].map do |x|
        sleep
      end}
  TEXT
end

# ---- rescue and ensure

def in_rescue
  raise "a"
rescue RuntimeError
  sleep
end

def in_ensure
  1
ensure
  sleep
end

def in_ensure_raised
  raise "a"
ensure
  sleep
end

def nested_rescue
  raise "a"
rescue StandardError
  begin
    raise "b"
  rescue StandardError
    begin
      raise "c"
    ensure
      [1].each { sleep }
    end
  end
end

def rescue_else
  1
rescue StandardError
  2
else
  sleep
ensure
  3
end

def retried
  tries ||= 0
  tries += 1
  raise "again" if tries < 3
  sleep
rescue StandardError
  retry
end

shape("rescue") { in_rescue }
shape("ensure") { in_ensure }
shape("ensure while raising") { in_ensure_raised }
shape("nested rescue") { nested_rescue }
shape("else") { rescue_else }
shape("retry") { retried }
shape("rescue modifier") { (raise "a") rescue sleep }
shape("rescue in block") { [1].each { begin; raise "a"; rescue StandardError; sleep; end } }
shape("rescue calls method") { begin; raise "a"; rescue StandardError => e; Plain.new.nested; end }
shape("ensure in block in ensure") { begin; 1; ensure; [1].each { begin; 2; ensure; sleep; end }; end }
shape("break through ensure") { [1].each { begin; break; ensure; sleep; end } }
shape("throw through ensure") { catch(:a) { begin; throw :a; ensure; sleep; end } }
shape("exception's own methods") do
  error = Class.new(StandardError) { def self.exception(*); sleep; end }
  raise error
end

# ---- what else fills the file: parked_more.rb is loaded with a path of its own
load File.join(__dir__, "parked_more.rb")

# ---- start them all, and tell

REQUESTS = Queue.new

def location(l)
  { path: l.path, absolute_path: l.absolute_path, line: l.lineno, label: l.label, base_label: l.base_label }
end

def described(thread)
  fibers = (thread.thread_variable_get(:fibers) || []).select { |f| f.respond_to?(:backtrace_locations) }
  {
    name: thread.name,
    tid: thread.respond_to?(:native_thread_id) ? thread.native_thread_id : thread.thread_variable_get(:tid),
    main: thread == Thread.main,
    # Thread#status knows one word for both kinds of sleep; inspect has Ruby's own two.
    status: thread.inspect[/ (\w+)>\z/, 1],
    frames: (thread.backtrace_locations || []).map { |l| location(l) },
    fibers: fibers.map { |f| { frames: (f.backtrace_locations || []).map { |l| location(l) } } },
  }
end

def others
  Thread.list.reject { |t| t.name == "reporter" }
end

# All threads are parked when each sleeps and none has moved over several looks.
def settle
  last = nil
  same = 0
  30_000.times do
    now = others.map { |t| [t.object_id, t.status, t.backtrace] }
    same = now == last && now.all? { |_, status, _| status == "sleep" } && now.size > SHAPES.size ? same + 1 : 0
    return if same == 5
    last = now
    sleep 0.002
  end
  busy = others.reject { |t| t.status == "sleep" }.map { |t| [t.name, t.status, t.backtrace] }
  raise "not parked: #{busy.inspect}, #{others.size} threads of #{SHAPES.size}"
end

SHAPES.each { |name, body| started(name, &body) }
Thread.main.thread_variable_set(:tid, native_thread_id)
Thread.main.name = "main" if Thread.main.name.nil?

Thread.new do
  Thread.current.name = "reporter"
  loop do
    case REQUESTS.pop
    when "gc" then GC.start
    when "compact" then GC.compact if GC.respond_to?(:compact)
    end
    settle
    # Threads that the standard library starts (Timeout's) have no name on some releases.
    others.each_with_index { |t, i| t.name = "unnamed #{i}" if t.name.nil? }
    truth = { ruby: RUBY_VERSION, description: RUBY_DESCRIPTION, pid: Process.pid, threads: others.map { |t| described(t) } }
    puts JSON.generate(truth)
  end
end
REQUESTS << "truth"

while (line = STDIN.gets)
  line = line.chomp
  break if line == "quit"
  REQUESTS << line
end
exit!(0)
