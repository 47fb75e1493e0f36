# A program that takes its time to start: for eight seconds it loads files that compute and allocate, with threads that do the
# like. Then it rests.
require "tmpdir"
KEPT = []
LOADED = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 8
def starting?
  Process.clock_gettime(Process::CLOCK_MONOTONIC) < LOADED
end
puts "ready"
Dir.mktmpdir do |dir|
  parts = Array.new(100) { |i| "#{dir}/part_#{i}.rb" }
  parts.each { |file| File.write(file, "KEPT << Array.new(10_000) { |i| i.to_s * 3 }\ncompute 0.1\n") }
  3.times { |i| named("init-#{i}") { while starting?; KEPT << Array.new(2000) { "x" * 20 }; compute 0.01; end } }
  parts.each { |file| require file if starting? }
end
KEPT.clear
sleep
