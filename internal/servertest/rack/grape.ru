require "grape"
require_relative "request_log"

class Shop < Grape::API
  version "v1", using: :path
  prefix :api
  format :json

  resource :orders do
    route_param :number do
      get do
        Thread.current[:endpoint] = "GET /api/:version/orders/:number"
        sleep params["ms"].to_i / 1000.0
        {ok: true}
      end
    end
  end

  get :report do
    Thread.current[:endpoint] = "GET /api/:version/report"
    till = RequestLog.now + params["ms"].to_i * 1_000_000
    1000.times { |i| Math.sqrt(i) } while RequestLog.now < till
    {ok: true}
  end
end

use RequestLog::Requests
run Shop
