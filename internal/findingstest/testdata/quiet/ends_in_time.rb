# Handlers that return, ensure clauses that end, and children that wait a moment for their threads again and again.
trap("USR1") { $seen = true }
named("signals") { loop { Process.kill("USR1", Process.pid); sleep 0.1 } }
named("tries") { loop { begin; raise "no"; rescue StandardError; sleep 0.5; ensure; Thread.new { sleep 0.2 }.join; end } }
puts "ready"
begin
  loop do
    begin
      raise "again"
    ensure
      Thread.new { sleep 0.3 }.join
      break if false
    end rescue nil
  end
ensure
  Thread.new { sleep 1 }.join
end
