# A shop with short I/O: four threads ask a cache in another process, six times a request, while another one makes a report. The
# waits for the GVL are mostly shorter than the time between two samples.
class Cache
  def initialize(from, to) = (@from, @to = from, to)

  def fetch(key)
    @to.write(key)
    @from.readpartial(64)
  end

  # Answers from a process of its own, some 300 µs after it was asked.
  def self.serve(from, to)
    loop do
      from.readpartial(64)
      sleep 0.0003
      to.write("x" * 16)
    end
  end
end

class Orders
  def initialize(cache) = @cache = cache

  def serve
    loop do
      show
      sleep 0.002
    end
  end

  def show = 6.times.sum { |i| price(i, @cache.fetch("order:#{i}")) }

  def price(i, text) = (1..120).sum { |k| k * i } + text.size
end

class Reports
  def run
    loop do
      build
      sleep 0.01
    end
  end

  def build
    rows = (1..4000).map { |i| { id: i, total: i * 7 % 113 } }
    summarize(rows.group_by { |r| r[:total] })
  end

  def summarize(groups) = groups.map { |k, v| "#{k}=#{v.sum { |r| r[:id] }}" }.join(",").size
end

class Metrics
  def run
    loop do
      sleep 0.005
      GC.stat
    end
  end
end

pipes = Array.new(4) { [IO.pipe, IO.pipe] }
server = fork { pipes.map { |ask, answer| Thread.new { Cache.serve(ask[0], answer[1]) } }.each(&:join) }
at_exit { Process.kill(:KILL, server) }
pipes.each_with_index { |(ask, answer), n| Thread.new { Orders.new(Cache.new(answer[0], ask[1])).serve }.name = "http-#{n + 1}" }
Thread.new { Reports.new.run }.name = "reports"
Thread.new { Metrics.new.run }.name = "metrics"
Process.setproctitle("shop")
trap(:TERM) { exit }
sleep
