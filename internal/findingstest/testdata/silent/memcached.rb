# A memcached that accepts and never answers: its clients were never seen doing anything else than to read from it.
server(11211, 1000)
clients(3, 11211)
ready
