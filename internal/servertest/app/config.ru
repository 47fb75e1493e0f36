require_relative "config/environment"
unless ENV.fetch("REQUEST_LOG", "").empty?
  require_relative "request_log"
  RequestLog.rails
  use RequestLog::Requests
end
run Rails.application
