# A healthy program: short work, a fast database and Redis, a lock held for a moment, a log on a file, a queue.
require "logger"
require "tempfile"
server(5432, 0.002)
server(6379, 0.0005)
log = Logger.new(Tempfile.new("log"))
lock, jobs = Mutex.new, Queue.new
4.times do |i|
  named("http-#{i}") do
    db, redis = TCPSocket.new(ADDRESS, 5432), TCPSocket.new(ADDRESS, 6379)
    loop do
      redis.write("get\n")
      redis.gets
      db.write("select\n")
      db.gets
      lock.synchronize { compute 0.0002 }
      text = Array.new(20) { |n| "order #{n}" }.join(" ")
      text.gsub(/[aeiou]/, "") if text =~ /order (\d+)/
      log.info("done")
      jobs << text
      sleep 0.05
    end
  end
end
2.times { |i| named("worker-#{i}") { loop { jobs.pop.split } } }
ready
