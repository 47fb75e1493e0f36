# Jobs for Sidekiq.
require "sidekiq"
require_relative "request_log"

Sidekiq.configure_server { |c| c.server_middleware { |chain| chain.add RequestLog::Jobs } }

class ShipOrder
  include Sidekiq::Worker
  def perform(number, ms) = sleep(ms / 1000.0)
end

module Reports
  class Daily
    include Sidekiq::Worker
    def perform(number, ms)
      till = RequestLog.now + ms * 1_000_000
      1000.times { |i| Math.sqrt(i) } while RequestLog.now < till
      Sidekiq.redis { |r| r.blpop("nothing", timeout: 1) } if number % 20 == 0
    end
  end
end
