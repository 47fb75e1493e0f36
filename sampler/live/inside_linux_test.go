package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/stuckfs"
	"github.com/ddtop/ddtop/sampler"
)

// TestNativeStacksHaveTheKernelsWords: if a thread waits in a system call for files, its native stack must say what the
// kernel waits for. ddtop finds this by the names of the kernel's functions.
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

// TestSamplesHaveTheKernelsWords: if a thread is in state D (uninterruptible sleep), samples and recordings must say
// what the kernel waits for, inside the innermost Ruby frame. In this test the file system hangs. One thread reads a
// page of a file, and another thread waits for this page.
func TestSamplesHaveTheKernelsWords(t *testing.T) {
	if _, err := os.ReadFile("/proc/self/stack"); err != nil {
		rubytest.Skip(t, "the kernel does not name its functions: %v", err)
	}
	p := rubytest.One(t).Start(t, `
$stdout.sync = true
$stdin.gets
file = File.open("disk/zeros", "rb")
puts "opened"
$stdin.gets
2.times { Thread.new { Thread.current.name = "reader"; file.pread(10, 0) } }
puts "ready"
$stdin.gets`, rubytest.Options{})
	dir := filepath.Join(p.HostDir, "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	disk := stuckfs.MountAt(t, dir)
	disk.File("zeros")
	p.Send(t, "open")
	p.Expect(t, "opened")
	disk.Stick()
	defer disk.Release()
	p.Send(t, "read")
	p.Expect(t, "ready")
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	var got sampler.NativeStack
	var state string
	err = s.Run(ctx, func(x *sampler.Sample) {
		x.Native.WantAll(x.TimeNS)
		for i := range x.Threads {
			th := &x.Threads[i]
			if info, _ := s.Dictionary().Thread(th.ID); info.Name != "reader" || th.Native == 0 || got.Kernel != "" {
				continue
			}
			if got = s.Dictionary().NativeStack(th); got.Kernel != "" {
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", p.PID, th.TID))
				if err != nil {
					t.Error(err)
				}
				_, state, _ = strings.Cut(string(b), ") ")
				cancel()
			}
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(got.Frames) == 0 || got.Kernel != "waits for a page of a file or of swap" || !strings.HasPrefix(state, "D ") {
		t.Errorf("in state %.1q: %+v", state, got)
	}
}
