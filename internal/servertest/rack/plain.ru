# An application that is nothing but Rack.
require_relative "request_log"
use RequestLog::Requests
run(lambda do |env|
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
