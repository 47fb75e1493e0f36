# Memory that grows and is let go of again: each list is garbage after three seconds.
def report
  rows = []
  300.times { 700.times { rows << "row #{rows.size} of the report" }; sleep 0.01 }
  rows.size
end
named("reports") { loop { report } }
ready
