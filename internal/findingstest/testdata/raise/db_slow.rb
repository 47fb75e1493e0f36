server(5432, 0.3)
clients(4, 5432)
ready
