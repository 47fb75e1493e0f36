# Ractors run Ruby code, and short calls of C code. All of them stop soon for each collection, of which there are many.
if RUBY_VERSION < "3"
  puts "skip Ruby #{RUBY_VERSION} has no ractors"
  exit!(0)
end
Warning[:experimental] = false
Ractor.new(name: "device") { loop { keep_gvl(40) } }
Ractor.new(name: "clerk") { loop { compute 0.001; sleep 0.001 } }
named("collector") { loop { GC.start; sleep 0.005 } }
ready
