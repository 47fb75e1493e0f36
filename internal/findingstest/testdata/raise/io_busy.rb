# Many short calls: nothing is slow, and the threads do little else.
server(443, 0.02)
clients(4, 443)
ready
