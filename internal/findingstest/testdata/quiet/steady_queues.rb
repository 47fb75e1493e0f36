# Queues that are long and do not grow: one gets a job for each that is done, one gets many at once and is emptied, and
# one was filled at once and is done slowly.
class Line
  def initialize(items)
    @jobs = Queue.new
    items.times { @jobs << 1 }
  end

  def each
    while (job = @jobs.pop)
      yield job
    end
  end

  def add(items)
    items.times { @jobs << 1 }
  end
end
steady = Line.new(200)
named("steady") { steady.each { sleep 0.01; steady.add(1) } }
batches = Line.new(0)
named("worker") { batches.each { sleep 0.005 } }
named("batches") { loop { batches.add(60); sleep 1.5 } }
slow = Line.new(300)
named("slow") { slow.each { sleep 0.5 } }
ready
