# Each thread waits in a method whose name begins with in_, which was called in a way of its own.
$never = Queue.new
def wait
  $never.pop
end

module Mixed
  def in_module
    wait
  end
  alias module_alias in_module
  alias send_on send
end

class Base
  include Mixed
  def in_alias
    wait
  end
  alias other_name in_alias
  alias_method :third_name, :in_alias
  alias fourth_name third_name
  def in_super(*)
    wait
  end
  def in_zsuper(a, b: 1)
    wait
  end
  def in_public
    wait
  end
end

class Calls < Base
  def in_super(a)
    super(a)
  end

  def in_zsuper(a, b: 1)
    super
  end
  def in_plain
    wait
  end
  def in_keywords(a, b: 1, c: 2)
    wait
  end
  def in_optional(a = 1, *rest, d, &block)
    wait
  end
  def in_block
    yield
  end
  def +(other)
    in_plus
  end
  def in_plus
    wait
  end
  def ==(other)
    in_equal
  end
  def in_equal
    wait
  end
  def !
    wait
  end
  def [](key)
    wait
  end
  def []=(key, value)
    wait
  end
  def to_s
    wait
    ""
  end
  def to_str
    wait
    ""
  end
  def to_a
    wait
    []
  end
  def to_hash
    wait
    {}
  end
  def to_proc
    wait
    proc {}
  end
  def ===(other)
    wait
  end
  def hash
    wait
    1
  end
  def coerce(other)
    wait
  end
  def <=>(other)
    wait
    0
  end
  def each
    wait
  end
  include Enumerable
  def method_missing(name, *args)
    wait
  end
  def respond_to_missing?(name, all)
    wait
    false
  end
  define_method(:in_defined) { wait }
  def self.const_missing(name)
    $never.pop
  end
  def self.inherited(by)
    $never.pop
  end
  def self.method_added(name)
    $never.pop if name == :late
  end
  def call(*)
    wait
  end
  alias_method :size, :in_plain
  alias_method :empty?, :in_plain
  alias_method :length, :in_plain
  alias_method :<<, :in_plain
  alias_method :nil?, :in_plain
  alias_method :=~, :in_keywords
  public :wait
end

class Fresh
  def initialize(*)
    $never.pop
  end
end

module Refined
  refine Base do
    def in_public
      super
    end
  end
end

class Yields
  def in_yield
    yield Calls.new
  end
  define_method(:in_symbol, &:in_plain.to_proc)
end

class Wrapped
  def in_a(x)
    x.call
  end
  def in_b(x)
    $never.pop
  end
end

class Wrapper < Wrapped
  %i[in_a in_b].each { |name| define_method(name) { |x| super(x) } }
end

class Other
  def in_other(*)
    $never.pop
    1
  end
  alias hash in_other
  alias to_a in_other
  alias to_str in_other
  alias method_missing in_other
end

class Equal
  def ==(other)
    $never.pop
  end
  alias eql? ==
  def hash
    1
  end
end

class Shown
  def inspect
    $never.pop
    ""
  end
  def set
    @x = 1
  end
end

class Failure < StandardError
  def backtrace
    $never.pop
  end
end

c = Calls.new
list = %w[b a]
handler = proc { wait }
ways = {
  plain: -> { c.in_plain }, keywords: -> { c.in_keywords(1, b: 2) }, hash: -> { h = {b: 2}; c.in_keywords(1, **h) },
  splat: -> { a = [1, 2]; c.in_optional(*a) }, block: -> { c.in_block { wait } }, nested: -> { [1].each { [2].map { c.in_plain } } },
  alias: -> { c.other_name }, alias_method: -> { c.third_name }, alias_of_alias: -> { c.fourth_name }, module: -> { c.in_module },
  module_alias: -> { c.module_alias }, super: -> { c.in_super(1) }, zsuper: -> { c.in_zsuper(1) },   send: -> { c.send(:in_plain) }, underscore_send: -> { c.__send__(:in_plain) }, send_alias: -> { c.send_on(:in_plain) }, public_send: -> { c.public_send(:in_plain) },
  method: -> { c.method(:in_plain).call }, unbound: -> { Base.instance_method(:in_alias).bind(c).call }, symbol: -> { [c].each(&:in_plain) },
  method_block: -> { [1].each(&c.method(:in_keywords)) }, proc: -> { handler.call }, proc_short: -> { handler.() }, proc_index: -> { handler[] },
  proc_case: -> { case 1 when handler then 1 end }, proc_yield: -> { handler.yield }, defined: -> { c.in_defined }, missing: -> { c.in_nothing },
  respond: -> { c.respond_to?(:in_nothing) }, plus: -> { c + 1 }, equal: -> { c == 1 }, unequal: -> { c != 1 }, not: -> { !c }, index: -> { c[1] },
  store: -> { c[1] = 2 }, text_index: -> { c["a"] }, text_store: -> { c["a"] = 2 }, text: -> { "#{c}" }, join: -> { "a" + c }, array: -> { [*c] },
  first: -> { a, * = *c; a }, keywords_of: -> { c.in_keywords(1, **c) }, block_of: -> { c.in_block(&c) }, when: -> { case 1 when c then 1 end },
  rescue: -> { begin; raise "x"; rescue => e; c.in_plain; end }, ensure: -> { begin; 1; ensure; c.in_plain; end }, key: -> { {c => 1} },
  coerce: -> { 1 + c }, compare: -> { [c, c].sort }, min: -> { [c, c].min }, each: -> { c.map { 1 } }, for: -> { for x in c do x end },
  sort_by: -> { list.sort_by { wait } }, constant: -> { Calls::Nothing }, new: -> { Fresh.new }, new_more: -> { Fresh.new(1, b: 2) },
  inherit: -> { Class.new(Calls) }, inherit_class: -> { eval "class Heir < Calls; end" }, added: -> { Calls.class_eval { def late; end } },
  eval: -> { eval "c.in_plain" }, instance_eval: -> { c.instance_eval { in_plain } }, instance_exec: -> { c.instance_exec(1) { |x| in_plain } },
  catch: -> { catch(:x) { c.in_plain } }, tap: -> { c.tap { |x| x.in_plain } }, times: -> { 2.times { c.in_plain } }, loop: -> { loop { c.in_plain } },
  enumerator: -> { [1].each.with_index { c.in_plain } }, lazy: -> { [1].lazy.map { c.in_plain }.first }, fiber: -> { Fiber.new { c.in_plain }.resume },
  safe: -> { c&.in_plain }, call_of: -> { c.(1) }, size: -> { c.size }, empty: -> { c.empty? }, length: -> { c.length }, shovel: -> { c << 1 rescue c.in_plain },
  nil: -> { c.nil? }, match: -> { c =~ 1 }, gsub: -> { "a".gsub(/a/) { c.in_plain; "" } }, define: -> { Calls.define_method(:in_more) { wait }; c.in_more },
  curry: -> { c.method(:in_keywords).curry[1] }, compose: -> { (handler >> handler).call }, tally: -> { list.each_with_object(c) { |_, x| x.in_plain } },
  sprintf: -> { format("%s", c) }, puts: -> { $stderr.puts(c) }, at_block: -> { c.then { |x| x.in_plain } }, cover: -> { (c..c).cover?(1) },
  pattern: -> { Thread.current.instance_exec(&handler) }, or_set: -> { c[1] ||= 2 }, once: -> { /#{c}/o }, trace: -> { TracePoint.new(:call) { c.in_plain }.enable { wait } },
}
ways.update(
  yield_symbol: -> { Yields.new.in_yield(&:in_plain.to_proc) }, defined_symbol: -> { Yields.new.in_symbol(c) },
  other_hash: -> { {Other.new => 1} }, other_array: -> { [*Other.new] }, other_text: -> { "a" + Other.new }, other_missing: -> { Other.new.nothing },
  eql: -> { {Equal.new => 1, Equal.new => 2} }, frozen: -> { Shown.new.freeze.set }, frozen_list: -> { [Shown.new].freeze << 1 },
  backtrace: -> { raise Failure }, yield_block: -> { Yields.new.in_yield { wait } },
)
# Up to 2.7 nothing says that the shared instruction is a super.
ways[:shared_super] = -> { w = Wrapper.new; w.in_a(-> { w.in_b(1) }) } if RUBY_VERSION >= "3"
using Refined # it changes what all blocks of Symbols below are
ways[:refined] = -> { Base.new.in_public }
ways.each { |name, way| t = Thread.new(&way); t.name = name.to_s; t.report_on_exception = false }
Thread.pass until Thread.list.all? { |t| t == Thread.current || t.stop? }
puts "ready #{Thread.list.size - 1} of #{ways.size}"
$stdout.flush
$stdin.gets
