require "sinatra/base"
require_relative "request_log"

class Shop < Sinatra::Base
  set :environment, :production
  set :host_authorization, {} if respond_to?(:host_authorization)

  get "/orders/:number" do
    Thread.current[:endpoint] = "GET /orders/:number"
    sleep params["ms"].to_i / 1000.0
    "ok"
  end

  get "/report" do
    Thread.current[:endpoint] = "GET /report"
    till = RequestLog.now + params["ms"].to_i * 1_000_000
    1000.times { |i| Math.sqrt(i) } while RequestLog.now < till
    "ok"
  end
end

use RequestLog::Requests
run Shop
