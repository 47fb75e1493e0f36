# Threads that load code, each a file of its own, and wait there for what comes after a while; and two that load one
# file, of which one waits a short time for the other.
FIRST = Queue.new
2.times { |i| File.write("own#{i}.rb", "FIRST.pop\n") }
2.times { |i| named("own-#{i}") { require File.expand_path("own#{i}.rb") } }
File.write("shared.rb", "sleep 0.2\n")
shared = File.expand_path("shared.rb")
named("again") do
  loop do
    threads = 2.times.map { |i| named("pair-#{i}") { require shared } }
    threads.each(&:join)
    $LOADED_FEATURES.delete(shared)
    sleep 0.5
  end
end
ready
