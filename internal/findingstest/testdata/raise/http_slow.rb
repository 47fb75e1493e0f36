server(443, 0.4)
clients(3, 443)
ready
