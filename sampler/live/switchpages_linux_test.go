package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// swapBytes is the size of the swap space. The process of the test needs about 30 MB of it.
const swapBytes = 64 << 20

// swap adds swap space in compressed memory to this machine, until the test ends.
func swap(t *testing.T) {
	t.Helper()
	number, err := os.ReadFile("/sys/class/zram-control/hot_add")
	if err != nil {
		rubytest.Skip(t, "no compressed memory can be made here: %v", err)
	}
	name := "zram" + strings.TrimSpace(string(number))
	t.Cleanup(func() {
		if err := os.WriteFile("/sys/class/zram-control/hot_remove", number, 0); err != nil {
			t.Errorf("removing %s: %v", name, err)
		}
	})
	if err := os.WriteFile("/sys/block/"+name+"/disksize", fmt.Append(nil, swapBytes), 0); err != nil {
		t.Fatal(err)
	}
	device := "/dev/" + name
	if out, err := exec.CommandContext(t.Context(), "mkswap", device).CombinedOutput(); err != nil {
		rubytest.Skip(t, "mkswap %s: %v: %s", device, err, out)
	}
	path, err := unix.BytePtrFromString(device)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(path)), 0, 0); e != 0 {
		rubytest.Skip(t, "swapon %s: %v", device, e)
	}
	t.Cleanup(func() {
		if _, _, e := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(path)), 0, 0); e != 0 {
			t.Errorf("swapoff %s: %v", device, e)
		}
	})
}

// pageOut swaps out the private pages of a process again and again, until done is closed.
func pageOut(pid int, done <-chan struct{}) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(maps)) {
			var from, to uintptr
			var rights string
			if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil {
				return err
			}
			if rights != "rw-p" {
				continue
			}
			v := [2]uintptr{from, to - from} // a struct iovec with addresses of the other process
			_, _, e := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&v)), 1,
				unix.MADV_PAGEOUT, 0, 0)
			switch e {
			case 0, unix.EINVAL, unix.ENOMEM: // a mapping that cannot be swapped out, or is gone
			default:
				return fmt.Errorf("process_madvise: %w", e)
			}
		}
		select {
		case <-done:
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// TestSwitchesWithoutPages: the programs in the kernel cannot read words of memory whose pages are swapped out. ddtop
// must count these words, derive no state from them, and continue to follow the process.
func TestSwitchesWithoutPages(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.Long(t)
	swap(t)
	const program = `
Thread.new { Thread.current.name = "asleep"; sleep }
lock = Mutex.new
3.times { Thread.new { loop { lock.synchronize { 200.times { |i| i * i } }; sleep 0.001 } } }
Thread.new { loop { 2000.times { |i| i * i }; sleep 0.0001 } }
sleep 0.01
puts 1; $stdout.flush
$stdin.gets
`
	const leastFailed, samplesAfter = 50, 20
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, program, rubytest.Options{})
		p.Line(t)
		s, err := live.Open(t.Context(), p.PID, live.Options{From: live.FromSwitches})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		done, paged := make(chan struct{}), make(chan error, 1)
		begin := sync.OnceFunc(func() { go func() { paged <- pageOut(p.PID, done) }() })
		end := sync.OnceFunc(func() { close(done) })
		defer end()
		c := newChanging(t)
		var st sampler.SwitchStatus
		after := 0
		if err := s.Run(ctx, func(x *sampler.Sample) {
			c.take(x)
			for i := range x.Changes.List {
				y := &x.Changes.List[i]
				info, _ := s.Dictionary().Thread(y.Thread)
				if info.Name == "asleep" && y.State != sampler.GVLReleased && y.State != sampler.GVLGone {
					t.Errorf("a thread that sleeps: %+v", *y)
				}
			}
			before := st.Failed
			st = s.SwitchStatus()
			switch {
			case c.known == 5:
				begin()
			case after == 0 && st.Failed >= leastFailed:
				end()
				after = 1
			case after > 0 && st.Failed == before && x.Changes.Known():
				if after++; after > samplesAfter {
					cancel()
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		begin() // needed if changes were never known
		end()
		if err := <-paged; errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
			rubytest.Skip(t, "%v", err)
		} else if err != nil {
			t.Error(err)
		}
		switch {
		case !st.On:
			t.Errorf("%+v", st)
		case after == 0:
			rubytest.TooSeldomNow(t, "the programs could read nearly all: %+v", st)
		case after <= samplesAfter:
			t.Errorf("%d samples have changes afterwards: %+v", after, st)
		}
		rubytest.Report(t, "%d of %d records lacked words; %d samples with changes, which began anew %d times",
			st.Failed, st.Records, c.known, c.fresh)
	})
}
