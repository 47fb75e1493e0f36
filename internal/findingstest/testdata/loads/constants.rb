# The same with autoload: two constants whose files need each other.
GO = Queue.new
File.write("left.rb", "class Left\n  GO.pop\n  Right\nend\n")
File.write("right.rb", "class Right\n  GO.pop\n  Left\nend\n")
autoload :Left, File.expand_path("left.rb")
autoload :Right, File.expand_path("right.rb")
threads = [named("left") { Left }, named("right") { Right }]
threads.each { |t| wait_until_in(t, "pop") }
2.times { GO << 1 }
ready
