# Threads that work without the GVL: zlib releases it while it compresses.
require "zlib"
wait_for_go
text = Random.new(1).bytes(1 << 20).unpack1("H*")
4.times { |i| named("packer-#{i}") { loop { Zlib::Deflate.deflate(text, 9) } } }
ready
