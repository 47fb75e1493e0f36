# The program has run all of its code, and a thread whose ensure clause never ends keeps it.
class Spool
  def flush
    loop { sleep 0.5 }
  end
end
named("stubborn") do
  begin
    sleep
  ensure
    Spool.new.flush
  end
end
named("obeys") { sleep }
ready_and_seen
