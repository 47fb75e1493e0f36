require "logger"
reader, writer = IO.pipe
log = Logger.new(writer)
4.times { |i| named("worker-#{i}") { loop { log.info("x" * 1000) } } }
ready
