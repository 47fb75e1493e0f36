# Two threads take jobs, until one of them ends. From then on more jobs come than the other one does.
wait_for_go
class Mailer
  def initialize
    @jobs = Queue.new
  end

  def <<(job)
    @jobs << job
  end

  def run
    loop { deliver(@jobs.pop) }
  end

  def deliver(_job)
    sleep 0.05
  end
end
mailer = Mailer.new
workers = Array.new(2) { |i| named("mailer-#{i}") { mailer.run } }
workers.each { |w| wait_until_in(w, "pop") }
ready_and_seen
workers.last.kill.join
named("orders") { loop { mailer << 1; sleep 0.01 } }
sleep
