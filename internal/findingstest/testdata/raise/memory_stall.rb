# Reads a mapped file that does not fit into the memory there is, page by page with the GVL held, through Kernel#syscall.
MMAP, WRITE = RUBY_PLATFORM.include?("x86_64") ? [9, 1] : [222, 64]
PAGE, SIZE = 4096, 192 << 20
wait_for_go
# Pages can't be missed without a CPU: on a full machine the faults are fewer than a starving program makes.
begin
  Process.setpriority(Process::PRIO_PROCESS, 0, -15)
rescue Errno::EACCES, Errno::EPERM
end
file, text = File.open("mapped", "w+"), "x" * (1 << 20)
(SIZE >> 20).times { file.syswrite(text) }
file.fsync
address = syscall(MMAP, 0, SIZE, 1, 1, file.fileno, 0)
out, random = File.open("out", "w"), Random.new(1)
named("reader") { loop { syscall(WRITE, out.fileno, address + random.rand(SIZE / PAGE) * PAGE, 1) } }
ready
