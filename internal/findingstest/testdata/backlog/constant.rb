# A constant has the queue that grows. A thread that took from another queue is ended by an exception.
wait_for_go
module Shop
  JOBS = SizedQueue.new(1_000_000)
  AUDITS = Queue.new

  def self.pack
    loop { JOBS.pop; sleep 0.1 }
  end

  def self.audit
    AUDITS.pop
    raise "secret"
  end

  def self.order
    loop { JOBS << 1; sleep 0.01 }
  end
end
Thread.abort_on_exception = false
packer, auditor = named("packer") { Shop.pack }, named("auditor") { Shop.audit }
auditor.report_on_exception = false
[packer, auditor].each { |w| wait_until_in(w, "pop") }
ready_and_seen
Shop::AUDITS << 1
sleep 0.01 while auditor.alive?
named("orders") { Shop.order }
sleep
