# A hook of the program's end joins a thread that does not end.
at_exit { named("late") { sleep }.join }
puts "ready"
$stdin.gets
