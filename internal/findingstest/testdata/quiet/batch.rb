# One thread that computes all the time keeps nobody waiting; its regular expressions are short ones.
named("import") do
  lines = Array.new(2000) { |i| "2026-11-20 line #{i} of the import with some text in it" }
  found = 0
  loop { lines.each { |l| found += 1 if l.match?(/line (\d+) of (.*) text (?!without)/) } }
end
named("idle") { sleep }
ready
