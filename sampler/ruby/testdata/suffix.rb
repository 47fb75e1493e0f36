# Programs whose stacks keep what lies outward and change what lies inward, or the other way round: what a reader takes over of
# the last stack must be what it would find anew. Each argument names one of them.
$stdout.sync = true
ITEMS = [1, 2, 3].freeze
def spin(n = 40)
  n.times { |i| i.to_s }
end
def deep(n, &b)
  n.zero? ? b.call : deep(n - 1, &b)
end

# C functions that one place calls for one receiver: their frames have the same bytes.
def same_receiver
  deep(12) { loop { %i[each map select reject each_with_index sum].each { |m| ITEMS.send(m) { |*| spin(4) } } } }
end

# Methods of other names with the same code, called from one place.
class Twice
  body = proc { |n| n.zero? ? spin(4) : send(NAMES[n], n - 1) }
  NAMES = %i[one two three four].freeze
  NAMES.each { |name| define_method(name, &body) }
  def plain(n)
    n.zero? ? spin(4) : send(OTHER[n], n - 1)
  end
  OTHER = %i[plain other third].freeze
  alias other plain
  alias_method :third, :plain
end
def same_code
  twice = Twice.new
  deep(8) { loop { 4.times { |i| twice.send(Twice::NAMES[i], i) }; 3.times { |i| twice.send(Twice::OTHER[i], i) } } }
end

# One method of a module in several classes, some without a name, which get one while they are on the stack.
module Shared
  def work(n)
    n.zero? ? spin(4) : work(n - 1)
  end
  def self.work(n)
    n.zero? ? spin(4) : work(n - 1)
  end
end
def naming
  round = 0
  loop do
    anonymous = Class.new { include Shared; def own(n); n.zero? ? work(3) : own(n - 1); end }
    deep(6) do
      anonymous.new.own(4)
      Object.const_set("Named#{(round += 1) % 50}_#{round}", anonymous)
      3.times { anonymous.new.own(4) }
      Object.send(:remove_const, anonymous.name.to_sym)
    end
    Shared.work(3)
  end
end

# Methods that are redefined while they are on the stack, and code that goes away, so that other code comes to stand in its place.
def redefine
  round = 0
  deep(10) do
    loop do
      round += 1
      Object.class_eval("def changing(n)\n#{"\n" * (round % 3)} n.zero? ? spin(4) : changing(n - 1)\nend\ndef going_#{round % 2}(n)\n n.zero? ? changing(3) : going_#{round % 2}(n - 1)\nend")
      send("going_#{round % 2}", 4)
      eval("lambda { |n| n.times { spin(2) } }").call(3)
      Object.send(:undef_method, "going_#{round % 2}")
      GC.start if (round % 20).zero?
    end
  end
end

def compact
  deep(15) { loop { spin; GC.respond_to?(:compact) ? GC.compact : GC.start; ITEMS.each { deep(3) { spin(4) } } } }
end

# Fibers of the same shape, whose stacks are used again by the next ones.
def fiber_a(n)
  n.zero? ? (3.times { spin(4); Fiber.yield }) : fiber_a(n - 1)
end
def fiber_b(n)
  n.zero? ? (3.times { spin(4); Fiber.yield }) : fiber_b(n - 1)
end
def fibers
  deep(5) do
    loop do
      pair = [Fiber.new { fiber_a(9) }, Fiber.new { fiber_b(9) }]
      3.times { pair.each(&:resume) }
      4.times { |i| Fiber.new { i.even? ? fiber_a(6) : fiber_b(6) }.resume }
    end
  end
end

# A rescue or ensure at the border of what changes.
def handled(n)
  return spin(2) if n.zero?
  raise "x" if n.odd?
  handled(n - 1)
rescue RuntimeError
  spin(2)
  handled(n - 1)
ensure
  spin(1)
end
def rescues
  deep(7) { loop { handled(5); handled(4); begin; handled(3); ensure; handled(2); end } }
end

# Calls in tail position replace the frame of their caller.
RubyVM::InstructionSequence.new(<<~TAIL, nil, nil, 1, tailcall_optimization: true, trace_instruction: false).eval if defined?(RubyVM::InstructionSequence)
  def tail_a(n)
    n.zero? ? spin(2) : tail_b(n - 1)
  end
  def tail_b(n)
    n.zero? ? spin(2) : tail_a(n - 1)
  end
TAIL
def tails
  deep(9) { loop { tail_a(7); tail_b(7); deep(4) { tail_a(3) } } }
end

module Refined
  refine(Integer) { def wait_a_little(n); n.zero? ? spin(2) : (n - 1).then { |m| m.wait_a_little(m) }; end }
end
using Refined
def refined
  deep(6) { loop { 5.wait_a_little(5); 3.then { |i| i.wait_a_little(i) } } }
end

# Blocks, Procs and Bindings, whose environments move from the stack to the heap while their frames stand.
def escaping(n, &b)
  return b.call(n) if n.zero?
  kept = nil
  [n].each { |x| spin(1); kept = proc { x }; spin(1); binding if x.odd?; escaping(n - 1) { |y| b.call(kept.call + y) } }
end
def escapes
  deep(6) { loop { escaping(4) { |n| spin(2) + n } } }
end

# Special variables come to stand where the method's entry was.
def special(n)
  spin(1)
  "abc" =~ /b/ if n.even?
  n.zero? ? spin(1) : special(n - 1)
  $~
end
def specials
  deep(6) { loop { special(6); special(5) } }
end

def births
  loop { Thread.new { deep(rand(8)) { spin(2) } }.join }
end
def waves
  loop { [90, 80, 88, 20, 89].each { |n| deep(n) { ITEMS.each { spin(4) } } } }
end

ARGV.each { |name| Thread.new { send(name) } }
puts "ready"
$stdin.gets
exit!
