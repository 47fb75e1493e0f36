# A cache that fills up in the first ten seconds, and serves from then on.
CACHE = []
named("cache") do
  280.times { 2000.times { CACHE << "entry #{CACHE.size}" }; sleep 0.03 }
  loop { 100.times { CACHE.sample + "!" }; sleep 0.01 }
end
ready
