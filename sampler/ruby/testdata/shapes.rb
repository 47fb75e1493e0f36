# Threads that serve requests whose environments have every odd shape. Each is named "shape K", and its requests' paths are
# "/K/NUMBER"; whatever else looks like a path says "/wrong". Threads named "none" serve nobody.
# frozen_string_literal: false
$stdout.sync = true

class Env < Hash
  def [](key)
    "/wrong"
  end
end

class Text < String
end

Struct.new("Odd", :REQUEST_METHOD, :PATH_INFO)

def base(k, n)
  {"rack.errors" => $stderr, "SERVER_NAME" => "here", "REQUEST_METHOD" => "GET", "PATH_INFO" => "/#{k}/#{n}", "QUERY_STRING" => "q=#{n}",
   "REQUEST_URI" => "/#{k}/#{n}?q=#{n}", "SCRIPT_NAME" => "", "HTTP_HOST" => "h#{n}"}
end

def work(n)
  n % 3 == 0 ? 100.times { |i| i.to_s } : sleep(0.0005)
end

def inner(env, n)
  work(n)
end

# A middleware that goes on with another environment.
def merged(env, n)
  env = env.merge("x.y" => n, "PATH_INFO" => "/wrong", "SCRIPT_NAME" => "/wrong")
  inner(env, n)
end

# An application that asks another one, 20 times in a request.
def batch(env, n)
  20.times do |i|
    sub = base("wrong", i)
    i.odd? ? merged(sub, n) : inner(sub, n + 1)
  end
end

def mounted(env, n)
  env = env.dup
  env["SCRIPT_NAME"], env["PATH_INFO"] = env["PATH_INFO"], ""
  inner(env, n)
end

# As Rack::URLMap does, in an environment that has nothing else to know it by. (It moves the path back at the end: one that is first seen
# mounted, and then half way back, can't be told from the next one.)
def remounted(env, n)
  path = env["PATH_INFO"]
  sleep 0.002
  at = path.index("/", 1)
  env["SCRIPT_NAME"] += path[0...at]
  env["PATH_INFO"] = path[at..-1]
  sleep 0.002
end

def captured(env, n)
  keep = proc { env }
  [1].each { inner({}, n) }
  keep.call
end

def app(env, n)
  work(n)
end

# What comes first is an env that is none.
def middleware(env, n, real)
  serve_real(real, n)
end

def serve_real(env, n)
  work(n)
end

def fibered(env, n)
  f = Fiber.new { work(n); Fiber.yield; work(n + 1) }
  f.resume
  work(n)
  f.resume
end

MANY = (0...3000).map { |i| ["HTTP_X_#{i}", "/wrong"] }
UTF16 = "PATH_INFO".dup.force_encoding("UTF-16LE").freeze
LONG = ("k" * 200_000).freeze
SUB = Class.new(String)
BUSY = {}

SHAPES = {
  "many" => ->(k, n) { e = base(k, n); MANY.each { |key, v| e[key] = v } if n % 8 == 0; app(e, n) },
  "deleted" => ->(k, n) {
    e = {}
    60.times { |i| e["a#{i}"] = i }
    e["PATH_INFO"] = "/wrong"
    e.delete("PATH_INFO")
    60.times { |i| e.delete("a#{i}") }
    e.update(base(k, n))
    e.rehash if n.odd?
    app(e, n)
  },
  "default" => ->(k, n) { e = Hash.new { |_, key| "/wrong" }; e.default_proc; e.update(base(k, n)); app(e, n) },
  "identity" => ->(k, n) { app(base(k, n).compare_by_identity, n) },
  "subclass" => ->(k, n) { e = Env.new; base(k, n).each { |key, v| e.store(Text.new(key), v.is_a?(String) ? Text.new(v) : v) }; app(e, n) },
  "keys" => ->(k, n) {
    e = {UTF16 => "/wrong", :PATH_INFO => "/wrong", nil => 1, 7 => 2, 1.5 => 3, LONG => 4, [1] => 5, path_info: "/wrong"}
    e.update(base(k, n))
    e["PATH_INFO".encode("UTF-16BE")] = "/wrong"
    e["PATH_INFO\0"] = "/wrong"
    e["PATH_INFO".dup.force_encoding("UTF-32LE")] = "/wrong"
    e[:REQUEST_METHOD] = "POST"
    app(e, n)
  },
  "strings" => ->(k, n) {
    e = base(k, n)
    long = "/#{k}/#{n}" + "?" * 100
    e["PATH_INFO"] = long[0, k.to_s.size + n.to_s.size + 2].freeze # it may share the memory of the longer one
    e["QUERY_STRING"] = ("q=#{n}" + " " * 200).rstrip
    app(e.freeze, n)
  },
  "merged" => ->(k, n) { merged(base(k, n), n) if n.even?; app(base(k, n), n) if n.odd? },
  "kept" => ->(k, n) { serve_merged(base(k, n), n) },
  "batch" => ->(k, n) { serve_batch(base(k, n), n) },
  "mounted" => ->(k, n) { serve_mounted(base(k, n), n) },
  "remounted" => ->(k, n) { serve_remounted({"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/#{k}/#{n}"}, n) },
  "captured" => ->(k, n) { captured(base(k, n), n) },
  "not first" => ->(k, n) { [{}, ENV, "production", nil, 7, Struct::Odd.new("GET", "/wrong"), {"PATH_INFO" => "/wrong"}].each { |x| middleware(x, n, base(k, n)) } },
  "fiber" => ->(k, n) { fibered(base(k, n), n) },
  "huge" => ->(k, n) { e = base(k, n); e["sinatra.route"] = "GET /" + "r" * 1_000_000 if n % 4 == 0; e["HTTP_USER_AGENT"] = LONG; app(e, n) },
  "shared" => ->(k, n) { e = base(k, n); BUSY[:env] = e; app(e, n) }, # another thread writes into it
  "stress" => ->(k, n) { e = base(k, n); GC.stress = true if ARGV[0] == "compact" && n % 50 == 0; f = "#{k}#{n}"; GC.stress = false; app(e, n) },
}

def serve_merged(env, n)
  merged(env, n)
end

def serve_batch(env, n)
  batch(env, n)
end

def serve_remounted(env, n)
  remounted(env, n)
end

def serve_mounted(env, n)
  mounted(env, n)
end

def serve(shape, k)
  n = 0
  loop { shape.call(k, n += 1) }
end

def nobody(env)
  loop { work(1) }
end

SHAPES.each_with_index { |(name, shape), k| Thread.new { Thread.current.name = "shape #{k} #{name}"; serve(shape, k) } }
dying = SHAPES.size
Thread.new do # a thread for each request, which ends in the middle of it
  n = 0
  loop do
    n += 1
    t = Thread.new(n) { |m| Thread.current.name = "shape #{dying} dying"; Thread.current.report_on_exception = false; e = base(dying, m); app(e, m); raise "ends" }
    sleep 0.001 if n % 4 == 0
    n.even? ? t.kill : (t.join rescue nil)
  end
end
bad = SHAPES.size + 1
Thread.new { Thread.current.name = "shape #{bad} bad"; n = 0; loop { n += 1; e = base(bad, n); e["PATH_INFO"] = "/#{bad}/\xff\e[2J\r\n\u202e#{n}".b; app(e, n) } }
[ENV, "production", {"REQUEST_METHOD" => nil, "PATH_INFO" => nil}, {"REQUEST_METHOD" => 1, "PATH_INFO" => {}}, Struct::Odd.new("GET", "/wrong"),
 {"REQUEST_METHOD" => "GET"}, {"REQUEST_METHOD" => :GET, "PATH_INFO" => "/wrong"}].each { |x| Thread.new { Thread.current.name = "none"; nobody(x) } }
Thread.new { loop { BUSY[:env] && BUSY[:env]["x#{rand(30)}"] = "/wrong" rescue nil; sleep 0.0005 if rand(8) == 0; Thread.pass } }
Thread.new { loop { sleep 0.002; GC.start } }
Thread.new { loop { sleep 0.005; GC.compact } } if ARGV[0] == "compact" && GC.respond_to?(:compact)
puts "ready"
STDIN.gets
