# Long Strings stay. Their text is outside of the objects' slots, and Ruby counts it.
wait_for_go
kept = []
named("web") { loop { kept << "x" * 100_000; sleep 0.01 } }
named("gc") { loop { sleep 2; GC.start } }
ready
