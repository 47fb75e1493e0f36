# Three threads wait for jobs. The one that a push wakes is killed before it takes the job.
class Mailer
  def initialize
    @jobs = Queue.new
  end

  def run
    loop { @jobs.pop }
  end

  def lose(victim)
    sleep 0.01 until @jobs.num_waiting == 3
    @jobs << 1
    victim.kill
  end
end
mailer = Mailer.new
workers = Array.new(3) do |i|
  worker = named("mailer-#{i}") { mailer.run }
  wait_until_in(worker, "pop")
  worker
end
mailer.lose(workers.first)
ready
