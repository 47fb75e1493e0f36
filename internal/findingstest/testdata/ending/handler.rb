# The handler of a signal waits for the thread that the interrupted code waits for.
work = named("work") { sleep }
trap("TERM") { work.join }
puts "ready"
named("sender") { $stdin.gets; Process.kill("TERM", Process.pid) }
work.join
