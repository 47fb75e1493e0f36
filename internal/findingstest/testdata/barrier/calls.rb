# A ractor stays in C code that does not check for interrupts, and no other ractor needs it to stop.
if RUBY_VERSION < "3"
  puts "skip Ruby #{RUBY_VERSION} has no ractors"
  exit!(0)
end
Warning[:experimental] = false
GC.disable
Ractor.new(name: "device") { loop { keep_gvl(6000) } }
Ractor.new(name: "clerk") { loop { sleep 0.01 } }
ready
