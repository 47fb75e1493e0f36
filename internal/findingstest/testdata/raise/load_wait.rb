# A file that waits for a pipe while it is loaded, and a thread that needs it, too.
File.write("slow.rb", "PIPE = IO.pipe\nPIPE[0].read(1)\n")
slow = File.expand_path("slow.rb")
loader = named("loader") { require slow }
wait_until_in(loader, "read")
named("web") { require slow }
ready
