# Four threads that resolve names. The resolver (locked.c) has a lock, and asks no server.
4.times { |i| named("worker-#{i}") { loop { begin; Addrinfo.getaddrinfo("host-#{i}.example", 80); rescue SocketError; end } } }
ready
