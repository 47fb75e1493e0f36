# Runs the load defined above (load_threads: names and bodies) until standard input gets a line, then writes the
# event log, if there is one. Prints a JSON line once all threads are at work: their names and native ids.
require "json"

$stdout.sync = true
if ARGV.include?("log")
  $stdin.gets # the test has put the extension beside us by now
  require "./eventlog"
end

# Kernel#syscall(gettid): releases before 3.1 don't say the native thread id themselves.
def native_id
  return Thread.current.native_thread_id if Thread.current.respond_to?(:native_thread_id)
  syscall({ "x86_64" => 186, "aarch64" => 178 }.fetch(RbConfig::CONFIG["host_cpu"]))
end

ready = Queue.new
threads = load_threads.map do |name, body|
  Thread.new do
    Thread.current.name = name
    ready << { name: name, tid: native_id }
    body.call
  end
end
said = threads.map { ready.pop }
puts JSON.generate(threads: said)
$stdin.gets
eventlog_write if ARGV.include?("log")
puts "written"
$stdin.gets
exit!
