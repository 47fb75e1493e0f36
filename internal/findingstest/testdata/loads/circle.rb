# Two files that need each other, and two threads that load them at the same time.
go = Queue.new
GO = go
File.write("first.rb", "GO.pop; require_relative 'second'\n")
File.write("second.rb", "GO.pop; require_relative 'first'\n")
threads = %w[first second].map do |name|
  file = File.expand_path(name)
  named(name) { require file }
end
threads.each { |t| wait_until_in(t, "pop") }
2.times { go << 1 }
ready
