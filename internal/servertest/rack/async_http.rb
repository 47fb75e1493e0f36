# Async::HTTP::Server, which Falcon runs, at a port. GET /held blocks its event loop until the file let_go is there.
require "async"
require "async/http/server"
require "async/http/endpoint"
require "fiddle"

# Sleeps with the GVL, which no scheduler of fibers sees.
HOLD = Fiddle::Function.new(Fiddle::Handle::DEFAULT["usleep"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)

endpoint = Async::HTTP::Endpoint.parse("http://127.0.0.1:#{ARGV.fetch(0)}")
Async do
  Async::HTTP::Server.for(endpoint) do |request|
    if request.path == "/held"
      File.write("held", "")
      HOLD.call(10_000) until File.exist?("let_go")
    end
    Protocol::HTTP::Response[200, {}, ["ok"]]
  end.run
end
