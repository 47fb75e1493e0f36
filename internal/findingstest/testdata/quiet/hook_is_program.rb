# A test framework or a small server: all the work is done in a hook of the program's end, with pauses.
at_exit do
  named("background") { loop { sleep 0.2 } }
  puts "ready"
  loop { compute 0.01; sleep 4 }
end
