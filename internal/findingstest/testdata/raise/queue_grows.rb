# Two threads take jobs, until an exception ends one of them. From then on more jobs come than the other one does.
wait_for_go
class Mailer
  class Refused < StandardError; end

  def initialize
    @jobs = Queue.new
  end

  def <<(job)
    @jobs << job
  end

  def run
    loop { deliver(@jobs.pop) }
  end

  def deliver(job)
    raise Refused, "secret" if job == Thread.current.name

    sleep 0.05
  end
end
mailer = Mailer.new
workers = Array.new(2) { |i| named("mailer-#{i}") { mailer.run } }
workers.each { |w| w.report_on_exception = w.abort_on_exception = false }
Thread.abort_on_exception = false
workers.each { |w| wait_until_in(w, "pop") }
ready_and_seen
while workers.last.alive?
  mailer << "mailer-1"
  sleep 0.06
end
named("orders") { loop { mailer << 1; sleep 0.01 } }
sleep
