# Workers take jobs from an Array, and wait at a ConditionVariable while it is empty. One is ended by an exception. From
# then on more jobs come than the other one does.
wait_for_go
class Mailer
  class Refused < StandardError; end

  def initialize
    @lock, @filled, @jobs, @sent = Mutex.new, ConditionVariable.new, [], []
  end

  def <<(job)
    @lock.synchronize do
      @jobs.push(job)
      @filled.signal
    end
  end

  def take
    @lock.synchronize do
      @filled.wait(@lock) while @jobs.empty?
      @jobs.shift
    end
  end

  def run
    while (job = take)
      deliver(job)
      @sent << job
    end
  end

  def deliver(job)
    raise Refused, "secret" if job == Thread.current.name

    sleep 0.05
  end

  def fill
    loop do
      @jobs << 1
      @lock.synchronize { @filled.signal }
      sleep 0.01
    end
  end
end
mailer = Mailer.new
workers = Array.new(2) { |i| named("mailer-#{i}") { mailer.run } }
workers.each { |w| w.report_on_exception = w.abort_on_exception = false }
Thread.abort_on_exception = false
workers.each { |w| wait_until_in(w, "sleep") }
ready_and_seen
while workers.last.alive?
  mailer << "mailer-1"
  sleep 0.06
end
named("orders") { mailer.fill }
sleep
