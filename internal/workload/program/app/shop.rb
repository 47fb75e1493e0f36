# frozen_string_literal: true

require_relative "controllers"

# The shop as a Rack application: a server calls it with the request's environment. Nothing of it knows of ddtop, which
# recognises a request by that Hash.
class Shop
  # The environment of a request as a server makes it.
  def self.env(method, path)
    { "REQUEST_METHOD" => method, "SCRIPT_NAME" => "", "PATH_INFO" => path, "QUERY_STRING" => "",
      "SERVER_NAME" => "shop.example", "SERVER_PORT" => "80", "SERVER_PROTOCOL" => "HTTP/1.1",
      "rack.url_scheme" => "http", "HTTP_X_REQUEST_START" => format("t=%.6f", Process.clock_gettime(Process::CLOCK_REALTIME)) }
  end

  def initialize(cache)
    @cache = cache
  end

  def call(env)
    [200, { "content-type" => "text/html" }, [route(env["PATH_INFO"])]]
  end

  private

  def route(path)
    _, what, id = path.split("/")
    case what
    when "checkout" then CheckoutController.new.create(id.to_i)
    when "reports" then ReportsController.new.show(id.to_i)
    else OrdersController.new(@cache).show(id.to_i)
    end.to_s
  end
end
