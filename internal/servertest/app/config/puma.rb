workers Integer(ENV.fetch("WORKERS"))
threads Integer(ENV.fetch("THREADS")), Integer(ENV.fetch("THREADS"))
preload_app!
environment "production"
bind ENV.fetch("BIND")
on_worker_boot { ActiveRecord::Base.establish_connection }
