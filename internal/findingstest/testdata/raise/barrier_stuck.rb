# A ractor stays in C code that does not check for interrupts. The main ractor wants to collect garbage, which all others
# have to stop for.
if RUBY_VERSION < "3"
  puts "skip Ruby #{RUBY_VERSION} has no ractors"
  exit!(0)
end
Warning[:experimental] = false
module Device
  def self.read
    loop { keep_gvl(6000) }
  end
end
Ractor.new(name: "device") do
  Thread.current.name = "device"
  Device.read
end
Ractor.new(name: "clerk") do
  Thread.current.name = "clerk"
  loop { sleep 0.01 }
end
named("collector") { loop { GC.start } }
ready
