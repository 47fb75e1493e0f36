# The workers of a Puma write into a log that one thread writes out slowly: its queue is full.
class AuditLog
  def initialize
    @lines = SizedQueue.new(5)
    named("audit") do
      loop do
        @lines.pop
        sleep 0.05
      end
    end
  end

  def <<(line)
    @lines << line
  end
end

class Payments
  def initialize(log)
    @log = log
  end

  def call
    compute 0.001
    create
  end

  def create
    @log << "paid"
  end
end
payments = Payments.new(AuditLog.new)
pool = Puma::ThreadPool.new
4.times do |i|
  pool.spawn_thread(i) { payments.call }
end
ready
