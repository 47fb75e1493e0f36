# An application that is nothing but Rack.
require_relative "request_log"
require "fiddle"

# Sleeps with the GVL, so that a request holds it for a known time, whoever has the CPUs.
HOLD = Fiddle::Function.new(Fiddle::Handle::DEFAULT["usleep"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)

# Holds the GVL and sleeps without it in turns, each for a random time around a mean in µs.
def mixed(held, outside)
  3.times do
    HOLD.call((rand * 2 * held / 3).to_i)
    sleep rand * 2 * outside / 3 / 1e6
  end
end

use RequestLog::Requests
run(lambda do |env|
  if env["PATH_INFO"] == "/mixed"
    mixed(*env["QUERY_STRING"].scan(/\d+/).map(&:to_i))
    next [200, {"Content-Type" => "text/plain"}, ["ok"]]
  end
  if env["PATH_INFO"] == "/held" # until a test ends it
    sleep 0.01 until File.exist?("let_go")
    next [200, {"Content-Type" => "text/plain"}, ["ok"]]
  end
  ms = env["QUERY_STRING"][/ms=(\d+)/, 1].to_i
  Thread.current[:endpoint] = env["PATH_INFO"].start_with?("/orders/") ? "GET /orders/:id" : "GET /report"
  if env["PATH_INFO"] == "/report"
    till = RequestLog.now + ms * 1_000_000
    1000.times { |i| Math.sqrt(i) } while RequestLog.now < till
  else
    sleep ms / 1000.0
  end
  [200, {"Content-Type" => "text/plain"}, ["ok"]]
end)
