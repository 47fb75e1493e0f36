# SIGTERM ends the main thread's code, whose ensure clause waits for a thread that nobody told to end.
class App
  def run
    worker = named("worker") { sleep }
    puts "ready"
    named("sender") { $stdin.gets; Process.kill("TERM", Process.pid) }
    sleep
  ensure
    [worker].each(&:join)
  end
end
App.new.run
