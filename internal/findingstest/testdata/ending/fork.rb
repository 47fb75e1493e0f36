# A forked child whose work is done waits for a thread of its own.
pid = fork do
  named("poster") do
    begin
      Queue.new.pop
    ensure
      Queue.new.pop
    end
  end
  puts "pid #{Process.pid}"
  $stdin.gets
end
Process.wait pid
