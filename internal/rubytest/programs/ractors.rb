# Parked threads in three ractors, and Ruby's word about each. Needs 3.0.
#
# Prints one line of JSON a ractor (see StartRactors in truth.go) once all of its threads are parked, and then ends
# with its standard input. JSON is written by hand: the library can't be used in all ractors on all releases.

def quoted(string)
  string.nil? ? "null" : string.inspect
end

def location(l)
  "{\"path\":#{quoted(l.path)},\"absolute_path\":#{quoted(l.absolute_path)},\"line\":#{l.lineno}," \
    "\"label\":#{quoted(l.label)},\"base_label\":#{quoted(l.base_label)}}"
end

def described(thread, main_ractor, number)
  # Threads of other ractors have no native thread of their own from 3.3 on.
  tid = thread.native_thread_id if main_ractor && thread.respond_to?(:native_thread_id)
  "{\"name\":#{quoted(thread.name)},\"tid\":#{tid || 0},\"ractor\":#{number},\"main\":#{main_ractor && thread == Thread.main}," \
    "\"status\":#{quoted(thread.inspect[/ (\w+)>\z/, 1])},\"frames\":[#{thread.backtrace_locations.map { |l| location(l) }.join(",")}]}"
end

# Waits until all threads of this ractor but this one are parked, and says what they are.
def report(count, main_ractor)
  number = Ractor.current.inspect[/#(\d+)/, 1]
  last = nil
  same = 0
  until same == 5
    others = Thread.list - [Thread.current]
    now = others.map { |t| [t.object_id, t.status, t.backtrace] }
    same = now == last && others.size == count && others.all? { |t| t.status == "sleep" } ? same + 1 : 0
    last = now
    sleep 0.002
  end
  threads = (Thread.list - [Thread.current]).map { |t| described(t, main_ractor, number) }
  $stdout.write("{\"ruby\":#{quoted(RUBY_VERSION)},\"pid\":#{Process.pid},\"threads\":[#{threads.join(",")}]}\n")
  $stdout.flush
end

def start(name, main_ractor)
  Thread.current.name = "#{name}-main" # the main thread of a ractor
  Thread.new { Thread.current.name = "#{name}-sleep"; [1].each { sleep } }
  Thread.new { Thread.current.name = "#{name}-queue"; Queue.new.pop }
  # Another ractor's main thread may only count as parked once it is in receive.
  Thread.new { Thread.current.name = "reporter"; report(3, main_ractor) }
end

2.times do |i|
  Ractor.new("ractor#{i}") do |name|
    start(name, false)
    Ractor.receive
  end
end
start("first", true)
STDIN.gets
exit!(0)
