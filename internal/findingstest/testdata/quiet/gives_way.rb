# A computation that calls Thread.pass after each step, as it should, and asks whether it is to stop.
done = Queue.new
named("import") { until done.closed? do compute 0.0005; Thread.pass; end }
named("idle") { sleep }
ready
