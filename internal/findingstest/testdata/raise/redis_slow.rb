server(6379, 0.1)
clients(3, 6379)
ready
