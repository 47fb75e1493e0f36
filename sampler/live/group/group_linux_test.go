package group_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/group"
)

// forker is a master process whose workers obey commands. "fork N" makes worker N. "2 exit", "2 exec other", "2 exec
// ruby" and "2 fork" are commands for worker 2. Each worker prints its number, its PID and its depth below the master.
// A thread that is not the master's main thread forks the workers, as in some servers.
const forker = `require 'rbconfig'
STDOUT.sync = true
PIPES = {}
$depth = 0
def work(number, pipe)
  STDIN.reopen('/dev/null')
  $depth += 1
  spin = Thread.new { loop { 2000.times { |i| i * i }; sleep 0.002 } }
  spin.name = "spinner of #{number}"
  puts "worker #{number} #{Process.pid} #{$depth}"
  while (line = pipe.gets)
    case line.strip
    when 'exit' then exit!(0)
    when 'exec other' then exec(File.join(Dir.pwd, 'other'))
    when 'exec ruby' then exec(RbConfig.ruby, '-e', 'STDOUT.sync = true; puts "again #{Process.pid}"; t = Thread.new { sleep }; t.name = "reborn"; sleep')
    when 'fork' then make("#{number}.1")
    end
  end
  sleep 120 # the master is gone; so may the test be
  exit!(0)
end
def make(number)
  r, w = IO.pipe
  Thread.new do
    fork { w.close; work(number, r) }
    r.close
  end.join
  PIPES[number] = w
end
puts "master #{Process.pid}"
while (line = STDIN.gets)
  words = line.split(' ', 2)
  if words[0] == 'fork'
    make(words[1].strip)
  else
    PIPES[words[0]].puts(words[1])
  end
end
`

// family is a running forker.
type family struct {
	*rubytest.Process
	t *testing.T
}

func startFamily(t *testing.T, r rubytest.Ruby) family {
	p := r.Start(t, forker, rubytest.Options{})
	p.Expect(t, "master")
	return family{p, t}
}

// fork makes a worker and returns its PID in the test's PID namespace.
func (f family) fork(number string) int {
	f.t.Helper()
	f.Send(f.t, "fork "+number)
	return f.pid("worker " + number)
}

// pid reads a line that begins with the given text, followed by a PID and possibly a depth. It returns the PID.
func (f family) pid(begins string) int {
	f.t.Helper()
	rest := strings.Fields(strings.TrimPrefix(f.Expect(f.t, begins), begins))
	var pid int
	if _, err := fmt.Sscan(rest[0], &pid); err != nil {
		f.t.Fatal(err)
	}
	return pid
}

// followed is a Group on which Follow runs, with the newest sample of each of its Sources.
type followed struct {
	t     *testing.T
	group *group.Group

	mu      sync.Mutex
	sources []sampler.Source
	newest  map[sampler.Source]*sampler.Sample
	ended   map[sampler.Source]error
	over    chan error
}

func follow(t *testing.T, g *group.Group) *followed {
	ctx, cancel := context.WithCancel(context.Background())
	f := &followed{t: t, group: g, newest: make(map[sampler.Source]*sampler.Sample), ended: make(map[sampler.Source]error), over: make(chan error, 1)}
	var runs sync.WaitGroup
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.over <- g.Follow(ctx, func(s sampler.Source) {
			f.mu.Lock()
			f.sources = append(f.sources, s)
			f.mu.Unlock()
			runs.Go(func() {
				err := s.Run(ctx, func(x *sampler.Sample) {
					if x.Depth == sampler.StackTick {
						f.mu.Lock()
						f.newest[s] = x.Clone()
						f.mu.Unlock()
					}
				})
				f.mu.Lock()
				f.ended[s] = err
				f.mu.Unlock()
				g.Done(s)
			})
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		runs.Wait()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// until waits until ok returns true. If this never happens, the test fails, and the message lists the Group's
// processes.
func (f *followed) until(what string, ok func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(rubytest.Timeout)
	for !ok() {
		if time.Now().After(deadline) {
			list, _ := f.group.Relatives()
			var b strings.Builder
			for _, r := range list {
				fmt.Fprintf(&b, "%d (of %d) %s sampled=%t ended=%t %s\n", r.PID, r.Parent, r.Title, r.Source != nil, !r.EndedAt.IsZero(), r.Why)
			}
			f.t.Fatalf("%s does not come true in %v; the processes:\n%s", what, rubytest.Timeout, b.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// relatives returns what the Group reports about each process that had this PID, in order.
func (f *followed) relatives(pid int) []sampler.Relative {
	list, _ := f.group.Relatives()
	return slices.DeleteFunc(list, func(r sampler.Relative) bool { return r.PID != pid })
}

// sampled waits for a sample of a process with at least the given number of threads. It returns the process's Source
// and the newest such sample.
func (f *followed) sampled(pid, threads int) (sampler.Source, *sampler.Sample) {
	f.t.Helper()
	var src sampler.Source
	var s *sampler.Sample
	f.until(fmt.Sprintf("a sample of process %d", pid), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, x := range f.sources {
			if x.Process().PID != pid || f.ended[x] != nil {
				continue
			}
			if n := f.newest[x]; n != nil && len(n.Threads) >= threads {
				src, s = x, n
				return true
			}
		}
		return false
	})
	return src, s
}

func (f *followed) endOf(pid int, why string) {
	f.t.Helper()
	f.until(fmt.Sprintf("the end of process %d: %s", pid, why), func() bool {
		return slices.ContainsFunc(f.relatives(pid), func(r sampler.Relative) bool {
			return !r.EndedAt.IsZero() && strings.Contains(r.Why, why)
		})
	})
}

// TestGroupFollowsForks follows a master process whose workers begin, end, fork and call exec. The Group must notice
// each of these.
func TestGroupFollowsForks(t *testing.T) {
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		f := startFamily(t, r)
		present := f.fork("0")
		g, err := group.Open(t.Context(), []int{f.PID}, group.Options{Children: true})
		if err != nil {
			t.Fatal(err)
		}
		w := follow(t, g)
		w.sampled(f.PID, 1)
		workers := []int{present, f.fork("1"), f.fork("2")}
		for n, pid := range workers {
			src, s := w.sampled(pid, 2)
			checkWorker(t, src, s, fmt.Sprint("spinner of ", n))
			if got := w.relatives(pid)[0]; got.Parent != f.PID || got.Root || got.StartTicks != src.Process().StartTicks {
				t.Errorf("worker %d: %+v", n, got)
			}
		}
		f.Send(t, "0 fork")
		nested := f.pid("worker 0.1")
		src, s := w.sampled(nested, 2)
		checkWorker(t, src, s, "spinner of 0.1")
		if got := w.relatives(nested)[0].Parent; got != present {
			t.Errorf("the parent of the nested worker is %d, not %d", got, present)
		}

		f.Send(t, "1 exit")
		w.endOf(workers[1], "exited")
		again := f.fork("3")
		w.sampled(again, 2)

		writeOther(t, filepath.Join(f.HostDir, "other"))
		f.Send(t, "2 exec other")
		w.endOf(workers[2], "exec")
		w.until("the other program is told to be no Ruby", func() bool {
			list := w.relatives(workers[2])
			last := list[len(list)-1]
			return last.EndedAt.IsZero() && last.Source == nil && strings.Contains(last.Why, "no Ruby") && strings.Contains(last.Why, "/other")
		})

		f.Send(t, "3 exec ruby")
		f.Expect(t, "again")
		w.endOf(again, "exec")
		w.until("the new program's thread gets its name", func() bool {
			src, s := w.sampled(again, 2)
			return hasThread(src, s, "reborn")
		})
		if n := len(w.relatives(again)); n != 2 {
			t.Errorf("the process that called exec is listed %d times", n)
		}

		f.Signal(t, 9) // the master's workers live on, and the Group still follows them
		w.endOf(f.PID, "exited")
		w.sampled(present, 2)
	})
}

// writeOther writes a program that does nothing: an ELF file with one segment, which calls pause(2) in a loop. The
// tests need it because the roots of the Rubies have hardly any program besides Ruby.
func writeOther(t *testing.T, path string) {
	t.Helper()
	const base, headers = 0x400000, 64 + 56
	machine, code := elf.EM_X86_64, []byte{0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7} // mov eax, 34, syscall, jump back
	if runtime.GOARCH == "arm64" {
		// The code is: mov w8, 73 (ppoll), then mov x0 to x4, 0, then svc 0, then a jump back.
		machine, code = elf.EM_AARCH64, []byte{0x28, 0x09, 0x80, 0x52, 0x00, 0x00, 0x80, 0xd2, 0x01, 0x00, 0x80, 0xd2,
			0x02, 0x00, 0x80, 0xd2, 0x03, 0x00, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4, 0xfa, 0xff, 0xff, 0x17}
	}
	size := uint64(headers + len(code))
	var b bytes.Buffer
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Entry: base + headers, Phoff: 64,
		Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64}
	copy(head.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1})
	for _, part := range []any{head, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base,
		Filesz: size, Memsz: size, Align: 0x1000}, code} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, b.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
}

// checkWorker compares the TIDs of a forked worker's threads with the kernel's list. They must be right even on 3.1 and
// 3.2, where Ruby itself is wrong: it keeps the parent's thread ID for the thread that forked.
func checkWorker(t *testing.T, src sampler.Source, s *sampler.Sample, spinner string) {
	t.Helper()
	pid := src.Process().PID
	seen := make(map[int32]bool)
	for _, th := range s.Threads {
		if th.Bits&sampler.BitMain != 0 && int(th.TID) != pid {
			t.Errorf("process %d: its main thread has tid %d", pid, th.TID)
		}
		if th.TID == 0 || seen[th.TID] {
			t.Errorf("process %d: the tid %d of thread %d", pid, th.TID, th.ID)
		}
		seen[th.TID] = true
	}
	if !hasThread(src, s, spinner) {
		t.Errorf("process %d has no thread %q", pid, spinner)
	}
}

func hasThread(src sampler.Source, s *sampler.Sample, name string) bool {
	return slices.ContainsFunc(s.Threads, func(th sampler.Thread) bool {
		info, ok := src.Dictionary().Thread(th.ID)
		return ok && info.Name == name
	})
}

// TestGroupOfSeveral opens two processes by their PIDs, one of them twice. The Group must have each process once, and
// no other process. Follow must return when both processes have ended.
func TestGroupOfSeveral(t *testing.T) {
	r := rubytest.One(t)
	f := startFamily(t, r)
	pids := []int{f.fork("0"), f.fork("1")}
	g, err := group.Open(t.Context(), []int{pids[0], pids[1], pids[0]}, group.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := follow(t, g)
	for _, pid := range pids {
		w.sampled(pid, 2)
	}
	if list, _ := g.Relatives(); len(list) != 2 {
		t.Errorf("%d processes, want 2", len(list))
	}
	f.fork("2") // the test does not ask for this worker
	for _, n := range []string{"0", "1"} {
		f.Send(t, n+" exit")
	}
	select {
	case err := <-w.over:
		if !errors.Is(err, sampler.ErrEnded) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(rubytest.Timeout):
		t.Error("all processes have ended, and Follow does not")
	}
	if list, _ := g.Relatives(); len(list) != 2 {
		t.Errorf("%d processes, want the 2 asked for", len(list))
	}
}

// TestGroupBelowAShell: if no Ruby runs below a shell, ddtop must refuse the shell, with and without Children.
func TestGroupBelowAShell(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 300; true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the error says that the process was killed
	})
	if _, err := group.Open(t.Context(), []int{cmd.Process.Pid}, group.Options{Children: true}); !errors.Is(err, attach.ErrNotRuby) {
		t.Errorf("a shell with a sleep: %v", err)
	}
	if _, err := group.Open(t.Context(), []int{cmd.Process.Pid}, group.Options{}); !errors.Is(err, attach.ErrNotRuby) {
		t.Errorf("a shell: %v", err)
	}
}
