package live

import (
	"os"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestNativeStacksHaveTheKernelsWords: of a thread that waits in a call on files the kernel's functions say for what.
func TestNativeStacksHaveTheKernelsWords(t *testing.T) {
	if _, err := os.ReadFile("/proc/self/stack"); err != nil {
		rubytest.Skip(t, "the kernel does not name its functions: %v", err)
	}
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, `
require "tmpdir"
$stdout.sync = true
dir = Dir.mktmpdir
Dir.chdir(dir)
File.mkfifo("fifo")
held = File.open("locked", "w")
held.flock(File::LOCK_EX)
Thread.new { Thread.current.name = "fifo"; File.open("fifo", "r") }
Thread.new { Thread.current.name = "flock"; File.open("locked").flock(File::LOCK_EX) }
puts "ready"
$stdin.gets
FileUtils.rm_rf(dir)
puts "removed"`, rubytest.Options{})
		p.Expect(t, "ready")
		read := nativeSource(t, p.PID)
		wanted := map[string]string{"fifo": "waits until a process opens the other end of the FIFO", "flock": "waits for a lock on the file"}
		defer p.Expect(t, "removed")
		defer p.Send(t, "remove")
		for until := time.Now().Add(rubytest.Timeout); len(wanted) > 0; {
			sample, stacks, dict := read()
			for i := range sample.Threads {
				id := sample.Threads[i].ID
				info, _ := dict.Thread(id)
				stack := stacks.Ruby[id]
				if info.Main && stack.Kernel+stack.KernelMissing != "" {
					t.Errorf("main waits for a pipe: %+v", stack)
				}
				if want := wanted[info.Name]; want != "" && stack.Kernel == want {
					delete(wanted, info.Name)
				}
			}
			if len(wanted) > 0 && time.Now().After(until) {
				t.Fatalf("not seen: %v; %+v", wanted, stacks.Ruby)
			}
		}
	})
}
