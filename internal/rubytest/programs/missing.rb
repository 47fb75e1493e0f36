# A program with a thread whose stack has a page that does not come: whoever reads it waits until it is given back
# (userfaultfd(2)). "take" takes the page away, "give" gives it back and wakes the thread up, "count" says how often the
# thread that computes has come round, "exit" ends the program.
require "objspace"
require "json"

$VERBOSE = nil # syscall is deprecated
arm = RUBY_PLATFORM.match?(/aarch64|arm64/)
USERFAULTFD, IOCTL, MADVISE, READV = arm ? [282, 29, 233, 270] : [323, 16, 28, 310]
PAGE = 4096

# The address of a string's bytes. As strings, system calls take no zeros.
def at(bytes)
  [bytes].pack("p").unpack1("Q")
end

# What our own memory holds; nil where there is none.
def memory(address, size)
  into = "\0" * size
  to, from = [at(into), size].pack("QQ"), [address, size].pack("QQ")
  syscall(READV, Process.pid, at(to), 1, at(from), 1, 0)
  into
rescue SystemCallError
  nil
end

def word(address)
  memory(address, 8)&.unpack1("Q")
end

count = 0
asleep = Thread.new { 30.times.each { |i| i == 29 and sleep } }
asleep.name = "asleep"
busy = Thread.new { loop { count += 1; Thread.pass } }
busy.name = "busy"
Thread.pass until asleep.status == "sleep"
GC.start
GC.disable # it would look at the page

data = word(JSON.parse(ObjectSpace.dump(asleep))["address"].hex + 32) # RTypedData.data: rb_thread_t
words = RubyVM::DEFAULT_PARAMS[:thread_vm_stack_size] / 8
# Its execution context begins with the VM stack's address and size (rb_execution_context_t in vm_core.h).
ec = (0..80).map { |i| word(data + 8 * i) }.find { |p| p && p > PAGE && word(p + 8) == words }
abort "no execution context" unless ec
page = (word(ec) + words * 8 - 1) & -PAGE # the outermost frames

fd = begin
  syscall(USERFAULTFD, 0o2000000)
rescue SystemCallError => e
  puts "skip userfaultfd(2): #{e.message}"
  $stdout.flush
  exit
end
control = ->(request, bytes) { syscall(IOCTL, fd, request, at(bytes)) }
control.(0xc018aa3f, [0xaa, 0, 0].pack("QQQ")) # UFFDIO_API
kept = memory(page, PAGE)
give = lambda do
  control.(0xc028aa03, [page, at(kept), PAGE, 0, 0].pack("QQQQq")) # UFFDIO_COPY
end

puts "ready"
$stdout.flush
while (line = $stdin.gets)
  case line.chomp
  when "take"
    control.(0xc020aa00, [page, PAGE, 1, 0].pack("QQQQ")) # UFFDIO_REGISTER, for missing pages
    syscall(MADVISE, page, PAGE, 4) # MADV_DONTNEED
    puts "taken"
  when "give"
    give.()
    asleep.run
    asleep.join
    puts "given"
  when "count"
    puts count
  when "exit"
    give.() rescue nil
    exit!(7)
  end
  $stdout.flush
end
