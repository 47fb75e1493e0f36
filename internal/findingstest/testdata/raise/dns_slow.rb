# Names are asked for at 127.0.0.1, where the test listens and never answers: the machine has no resolv.conf, and gets an
# nsswitch.conf of ours in this program's own mounts.
wait_for_go
BIND = 4096
File.write("nsswitch.conf", "hosts: dns\n")
syscall(RUBY_PLATFORM.include?("x86_64") ? 165 : 40, File.expand_path("nsswitch.conf"), "/etc/nsswitch.conf", "", BIND, 0)
3.times { |i| named("worker-#{i}") { loop { begin; Addrinfo.getaddrinfo("host-#{i}.example", 80); rescue SocketError; end } } }
ready
