# Chains of methods, a_0 that calls a_1 that calls a_2 …, by the name of the chain. What is on a stack of such methods says itself
# whether it can be.
def chain(name, depth, leaf = "nil", call: "%s")
  depth.times do |i|
    body = i == depth - 1 ? leaf : format(call, "#{name}_#{i + 1}")
    Object.class_eval("def #{name}_#{i}\n #{body}\nend", "chains.rb", 1)
  end
end

def alternate(depth, **how)
  chain("a", depth, **how)
  chain("b", depth, **how)
  Thread.new { loop { a_0; b_0 } }
end

def suspending(name, depth)
  chain(name, depth, "Fiber.yield")
  Fiber.new { loop { send(:"#{name}_0") } }
end

case ARGV[0]
when /^\d+$/ # two chains in turn
  alternate(ARGV[0].to_i)
when "pace" # two chains and a pause that gets longer, so that now and then all copies find the program at the same place
  chain("a", 20)
  chain("b", 20)
  $steps = 0
  def pause
    n = 0
    n += 1 while n < $steps
  end
  Thread.new { loop { a_0; b_0; pause } }
  Thread.new { loop { 60.times { |n| $steps = n; sleep 0.01 } } }
when "jump" # the depth jumps by hundreds
  {"a" => 600, "b" => 3, "c" => 330, "d" => 20}.each { |name, depth| chain(name, depth) }
  Thread.new { loop { a_0; b_0; c_0; b_0; d_0; c_0 } }
when "steps" # a flat stack for so long that it is forgotten how deep it was
  chain("a", 400)
  chain("b", 3, "n = 0; n += 1 while n < 1_000_000")
  Thread.new { loop { b_0; 300.times { a_0 } } }
when "shared" # an outer part that stays, and one that two chains share
  chain("s", 30, "a_0; b_0")
  chain("a", 40)
  chain("b", 40)
  Thread.new { loop { s_0 } }
when "blocks" # methods written in C and blocks in between
  alternate(30, call: "[1].each { [2].map { %s } }")
when "sent" # methods of methods
  alternate(40, call: "send(:%s)")
when "raise" # deep stacks that are left at once, past ensure
  chain("a", 200, "raise IOError", call: "begin; %s; ensure; 1; end")
  chain("b", 120, "throw :out")
  chain("c", 60)
  Thread.new { loop { begin; a_0; rescue IOError; c_0; end; catch(:out) { b_0 }; c_0 } }
when "fibers" # one thread, two fibers in turn, each resumed from a chain of its own
  chain("p", 20, "$a.resume")
  chain("q", 20, "$b.resume")
  Thread.new do
    $a, $b = suspending("a", 40), suspending("b", 40)
    loop { p_0; q_0 }
  end
when "births" # fibers that come and go, on VM stacks that are used again
  chain("a", 40)
  chain("b", 40)
  Thread.new { loop { Fiber.new { a_0 }.resume; Fiber.new { b_0 }.resume } }
when "parked" # a thread that waits
  $never = Queue.new
  chain("a", 100, "$never.pop")
  thread = Thread.new { a_0 }
  Thread.pass until thread.stop?
when "rests" # a thread that waits in two places in turn, and runs in between
  chain("a", 60, "$pace.pop")
  chain("b", 60, "$pace.pop")
  $pace = Queue.new
  2.times { Thread.new { loop { a_0; b_0 } } }
  Thread.new { loop { $pace << 1; sleep 0.0002 } }
end
puts "ready"; $stdout.flush; $stdin.gets
