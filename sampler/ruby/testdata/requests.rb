# Threads that serve one made-up request after another as fast as they can. What belongs to one request says whose it is and which:
# a reader that puts together what belongs to two of them is found out.
$stdout.sync = true

class Session
  def initialize(thread, number)
    @thread = thread
    @number = number
    @name = "s-#{thread}-#{number}"
  end
end

def serve(env, number)
  12.times { |i| env["extra#{i}"] = i } if number % 3 == 0 # grows from a small Hash to a large one
  env["note"] = "n-#{env["thread"]}-#{number}"
  4.times { |i| env.delete("extra#{i}") }
  40.times { |i| [i, i.to_s] } # garbage, and other objects in what is freed
  Thread.pass if number.odd?
  env.delete("note")
  raise ArgumentError, "e-#{env["thread"]}-#{number}" if number % 4 == 0
  env.size
rescue ArgumentError
  10.times { |i| "#{i}" }
end

def requests(thread, compact)
  number = 0
  loop do
    number += 1
    env = { "REQUEST_METHOD" => "GET", "PATH_INFO" => "p-#{thread}-#{number}", "thread" => thread, "number" => (1 << 62) + number,
            "params" => { controller: "c-#{thread}-#{number}", action: "a" }, "session" => Session.new(thread, number), :time => number / 7.0 }
    Thread.current[:number] = "f-#{thread}-#{number}"
    serve(env, number)
    GC.compact if compact && number % 2000 == 0 && GC.respond_to?(:compact)
  end
end

3.times { |i| Thread.new { Thread.current.name = "t#{i}"; requests(i, ARGV[0] == "compact" && i == 0) } }
puts "ready"
STDIN.gets
