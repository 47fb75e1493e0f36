# Threads parked in methods with local variables of every kind, and what Ruby says of them, as a line of JSON.
require "json"
$stdout.sync = true

def hex(s)
  s.dup.force_encoding("BINARY").unpack1("H*")
end

def told(v, depth = 0)
  case v
  when nil then { T: "nil" }
  when true then { T: "true" }
  when false then { T: "false" }
  when Integer then { T: "int", V: v.to_s }
  when Float then { T: "float", V: hex([v].pack("G")) }
  when String then { T: "string", V: hex(v) }
  when Symbol then { T: "symbol", V: hex(v.to_s) }
  when Array then { T: "array", Items: v.map { |e| told(e, depth + 1) } }
  when Hash then { T: "hash", Pairs: v.map { |k, e| [told(k, depth + 1), told(e, depth + 1)] } }
  else
    ivars = v.instance_variables.map { |n| [n, told(v.instance_variable_get(n), depth + 1)] }.to_h
    ivars["mesg"] = told(v.message) if v.is_a?(Exception) && v.message != v.class.name
    { T: "object", Class: v.class.name.to_s, Ivars: ivars }
  end
end

# Objects whose variables are kept in every way.
class Plain
  def initialize(n)
    n.times { |i| instance_variable_set("@v#{i}", [i, "value #{i}", nil, i.to_f / 3, :"sym#{i}"][i % 5]) }
  end
end
class Kid < Plain; end
def plains
  all = [0, 1, 2, 3, 4, 5, 13, 40, 100].flat_map { |n| [Plain.new(n), Kid.new(n)] }
  single = Plain.new(4)
  def single.own; end
  extended = Kid.new(5)
  extended.extend(Comparable)
  frozen = Plain.new(3).freeze
  removed = Plain.new(6)
  removed.send(:remove_instance_variable, :@v2)
  again = Plain.new(6)
  again.send(:remove_instance_variable, :@v1)
  again.instance_variable_set(:@v1, "once more")
  identified = Plain.new(2)
  identified.object_id
  identified.instance_variable_set(:@after, 1)
  anonymous = Class.new.new
  anonymous.instance_variable_set(:@a, 1)
  # So many orders that Ruby gives up on shapes for the class (3.2 and later).
  many = Class.new
  Object.const_set(:Many, many)
  complex = 40.times.map do |i|
    o = many.new
    4.times { |k| o.instance_variable_set("@m#{i}_#{k}", i * 10 + k) }
    o
  end
  all + others + [single, extended, frozen, frozen.dup, Plain.new(7).clone, removed, again, identified, anonymous] + complex
end

# Objects that are no ordinary ones, with variables.
def others
  all = [Queue.new, Mutex.new, proc { 1 }, Module.new, Class.new, Class.new(String), Fiber.new { 1 }, Time.now]
  all << Regexp.new("x") << Object.new.method(:to_s).unbind << (1..2).each if RUBY_VERSION < "4"
  all.map! { |o| o.frozen? ? o.dup : o }
  all.each_with_index { |o, n| (n + 1).times { |i| o.instance_variable_set("@v#{i}", "other #{i}") } }
  all << Queue.new << Class.new
end

def hash_of(n)
  n.times.map { |i| [i.even? ? "key#{i}" : :"key#{i}", i] }.to_h
end
def hashes
  deleted = hash_of(30)
  [0, 3, 9, 29].each { |i| deleted.delete(deleted.keys[i - 30]) }
  deleted["key0"] = "once more"
  small = hash_of(8)
  small.delete("key0")
  small.delete(:key3)
  emptied = hash_of(5)
  emptied.keys.each { |k| emptied.delete(k) }
  identity = {}.compare_by_identity
  identity["same"] = 1
  both = { "name" => 1, :name => 2 }
  shrunk = hash_of(50)
  45.times { shrunk.shift }
  [{}, { 1 => 2 }, hash_of(7), hash_of(8), hash_of(9), hash_of(100), deleted, small, emptied, identity, both, shrunk,
   Hash.new(5), Hash.new { 1 }.update("a" => { "b" => { c: [1, { "d" => nil }] } }), { nil => 1, 1.5 => 2, [1] => 3, "" => 4, :"" => 5, :+ => 6 }]
end

NUMBERS = [0, 1, -1, 42, 2**31, 2**32, 2**61, 2**62 - 1, 2**62, -2**62, -2**62 - 1, 2**63 - 1, 2**63, -2**63, -2**63 - 1, 2**64 - 1,
           2**64, 2**200, 3**2000, -3**2000].freeze
FLOATS = [0.0, -0.0, 1.0, -1.5, 3.14159, 1e300, -1e300, 1e-300, 5e-324, Float::INFINITY, -Float::INFINITY, Float::NAN, 2.0**-255, 1e-77].freeze
STRINGS = ["", "x", "a" * 22, "a" * 23, "a" * 24, "é" * 200, "b" * 700, "c" * 7000, "bin\x00\xff".dup.force_encoding("BINARY"),
           "frozen".freeze, "part of another, which shares it with it"[10..-1], "日本".encode("EUC-JP")].freeze
SYMBOLS = [:a, :+, :[]=, :"with space", "made#{rand(1 << 40)}".to_sym, :@ivar, :CONST, :"日本"].freeze

TRUTH = {}
LOCK = Mutex.new
PARKED = {}
def park
  PARKED[Thread.current.name] = true
  sleep
end

# say notes what a thread's methods, and the thread itself, have.
def say(locals)
  mine = (TRUTH[Thread.current.name] ||= { raw: {} })
  LOCK.synchronize do
    mine[:raw].update(locals)
    mine[:error] = $!
    mine[:vars] = Thread.current.thread_variables.map { |k| [k, Thread.current.thread_variable_get(k)] }.to_h
    mine[:fiber] = Thread.current.keys.map { |k| [hex(k.to_s), Thread.current[k]] }.to_h
  end
end

def plain(first, second = FLOATS, *rest, key: SYMBOLS, **others, &block)
  inner = hashes
  none = nil
  say("plain" => { "first" => first, "second" => second, "rest" => rest, "key" => key, "others" => others, "inner" => inner, "none" => none })
  park
  [first, second, rest, key, others, inner, none, block]
end

def escaped(first, second)
  third = "#{first} and #{second}"
  LAMBDAS << -> { third += "!" }
  LAMBDAS.last.call
  b = binding
  say("escaped" => (b.local_variables - [:b]).map { |n| [n.to_s, b.local_variable_get(n)] }.to_h)
  [1].each { |each_of| outer = each_of; park; outer }
end
LAMBDAS = []

class Service
  def initialize(env)
    @env = env
  end

  def call(env, many = STRINGS)
    a = 1; b = 2; c = 3; d = "four"; e = { "five" => 6 }
    say("call" => { "env" => env, "many" => many, "a" => a, "b" => b, "c" => c, "d" => d, "e" => e })
    forward(env) { |x| x.to_s + a.to_s + b.to_s + c.to_s + d + e.to_s }
  end

  def forward(*)
    objects = OBJECTS
    say("forward" => { "objects" => objects })
    park
    objects
  end
end

def failing(n)
  raise KeyError, "no #{n}" if n == 1
  raise ArgumentError if n == 2
  raise Class.new(StandardError) { def self.name; "Odd"; end }, "odd" if n == 9
  Integer("x#{n}")
end

def fails(how)
  case how
  when :rescue then begin failing(1); rescue StandardError; say({}); park end
  when :bare then begin failing(2); rescue StandardError; say({}); park end
  when :nested
    begin failing(1)
    rescue StandardError
      begin failing(3); rescue StandardError; say({}); park end
    end
  when :after
    begin failing(1); rescue StandardError; nil end
    say({})
    park
  when :ensure then begin failing(1) ensure say({}); park end
  when :quiet then begin 1 ensure say({}); park end
  when :thrown then catch(:x) { begin throw :x ensure say({}); park end }
  when :block then begin failing(3); rescue StandardError; [1].each { |x| say({}); park } end
  when :calls then begin failing(3); rescue StandardError; plain(1) end
  when :again
    begin
      begin failing(1); rescue StandardError; raise end
    rescue StandardError => e
      say({})
      park
      e
    end
  end
end

class Odd < StandardError
  def initialize(code)
    super("code #{code}")
    @code = code
  end
end

OBJECTS = plains
ENV_HASH = { "REQUEST_METHOD" => "GET", "PATH_INFO" => "/orders/17", "rack.input" => Object.new,
             "action_dispatch.request.path_parameters" => { controller: "orders", action: "show", id: "17" } }
             .merge(hash_of(40))
bodies = {
  "numbers" => -> { plain(NUMBERS) }, "strings" => -> { plain(STRINGS, 1, 2, 3, extra: 4, more: "5") { 6 } },
  "escaped" => -> { escaped("one", :two) }, "service" => -> { Service.new(ENV_HASH).call(ENV_HASH) },
  "fiber-locals" => lambda do
    60.times { |i| Thread.current[:"local#{i}"] = i }
    20.times { |i| Thread.current[:"local#{i * 3}"] = nil }
    Thread.current.thread_variable_set(:shared, { "by" => [:all, "fibers"] })
    Thread.current.thread_variable_set("other", 1.5)
    Thread.current[:+] = "operator"
    Thread.current[:Const] = { a: 1 }
    Thread.current[:@ivar] = [1]
    Thread.current[:"日本"] = "non-ASCII"
    Thread.current["made#{rand(1 << 40)}".to_sym] = 1
    plain(1)
  end,
  "in a fiber" => lambda do
    Thread.current[:outer] = 1
    Fiber.new { Thread.current[:inner] = { "x" => "of the fiber" }; plain(2) }.resume
  end,
  "odd" => -> { begin raise Odd, 7; rescue StandardError; plain(3) end },
}
%i[rescue bare nested after ensure quiet thrown block calls again].each { |how| bodies["$! #{how}"] = -> { fails(how) } }
threads = bodies.map { |name, body| Thread.new { Thread.current.name = name; Thread.current.report_on_exception = true; body.call } }
Thread.pass until threads.all? { |t| PARKED[t.name] && t.status == "sleep" }

def report
  puts JSON.generate(TRUTH.map { |name, t|
    [name, { Locals: t[:raw].map { |m, ls| [m, ls.map { |n, v| [n, told(v)] }.to_h] }.to_h,
             Vars: t[:vars].empty? ? nil : told(t[:vars]), Error: t[:error] && told(t[:error]), Fiber: t[:fiber].map { |k, v| [k, told(v)] }.to_h }]
  }.to_h)
end
report
while (line = STDIN.gets)
  case line.chomp
  when "gc" then 3.times { GC.start }
  when "compact" then GC.respond_to?(:compact) ? GC.compact : GC.start
  end
  report
end
