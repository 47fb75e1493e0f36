package live_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// programsInKernel returns the IDs of the BPF programs that record thread switches. It includes the programs of every
// ddtop on this machine.
func programsInKernel(t *testing.T) map[ebpf.ProgramID]bool {
	t.Helper()
	all := make(map[ebpf.ProgramID]bool)
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // the program has just been removed
		}
		if info, err := p.Info(); err == nil && strings.HasPrefix(info.Name, "ddtop_switch") {
			all[id] = true
		}
		_ = p.Close()
	}
}

// follower is a ddtop in another process, which follows a process by its thread switches.
type follower struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// theFollowed is an environment variable with the PID of a process. If it is set, this test binary follows the process,
// and runs no tests.
const theFollowed = "DDTOP_TEST_FOLLOWED"

// startFollower starts a ddtop in another process. It returns when this ddtop follows the process with the given PID.
func startFollower(t *testing.T, pid int) *follower {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSwitchesLeaveTheKernel$", "-test.v")
	cmd.Env = append(os.Environ(), theFollowed+"="+strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := rubytest.StartTied(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	f := &follower{cmd, bufio.NewReader(pipe)}
	f.more(t)
	return f
}

// more waits until the follower has reported further changes of the GVL. This shows that it still follows the process.
func (f *follower) more(t *testing.T) {
	t.Helper()
	for n := 0; n < 2; {
		line, err := f.out.ReadString('\n')
		if err != nil {
			t.Fatalf("the one that follows: %q, %v", line, err)
		}
		if strings.HasPrefix(line, "changes") {
			n++
		}
	}
}

// TestSwitchesLeaveTheKernel: two ddtops follow the same process, and a third follows another process. Each has its own
// BPF programs in the kernel. If one ddtop is killed, the others must continue. When a ddtop has ended, none of its
// programs may remain in the kernel.
func TestSwitchesLeaveTheKernel(t *testing.T) {
	if pid, err := strconv.Atoi(os.Getenv(theFollowed)); err == nil {
		s, err := live.Open(t.Context(), pid, live.Options{From: live.FromSwitches})
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		_ = s.Run(t.Context(), func(x *sampler.Sample) {
			if x.Changes.Known() && len(x.Changes.List) > 0 && !x.Changes.Fresh {
				if told++; told%20 == 1 {
					_, _ = os.Stdout.WriteString("changes\n")
				}
			}
		})
		return
	}
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.Long(t)
	before := programsInKernel(t)
	mine := func() (n int) {
		for id := range programsInKernel(t) {
			if !before[id] {
				n++
			}
		}
		return n
	}
	r := rubytest.One(t)
	one, two := r.Start(t, switching, rubytest.Options{}), r.Start(t, switching, rubytest.Options{})
	one.Line(t)
	two.Line(t)
	all := []*follower{startFollower(t, one.PID), startFollower(t, one.PID), startFollower(t, two.PID)}
	if n := mine(); n < len(all) { // other tests may load their programs at the same time
		t.Fatalf("%d ddtops follow, by %d programs", len(all), n)
	}
	own := programsInKernel(t)
	for i, f := range all {
		if err := f.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = f.cmd.Wait()
		for _, other := range all[i+1:] {
			other.more(t)
		}
	}
	left := func() (n int) {
		for id := range programsInKernel(t) {
			if own[id] && !before[id] {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(rubytest.Timeout); left() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d programs are left", left())
		}
	}
}

// TestSwitchesRefused: the kernel refuses the system call bpf, or perf_event_open, which the BPF programs need for
// their clocks. ddtop must poll the process instead, and report the reason.
func TestSwitchesRefused(t *testing.T) {
	calls := map[string]uint32{"bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN}
	if name := os.Getenv(refusal); name != "" {
		p := rubytest.One(t).Start(t, switching, rubytest.Options{})
		p.Line(t)
		forbid(t, calls[name])
		s, err := live.Open(t.Context(), p.PID, live.Options{From: live.FromAuto})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		after := 0
		if err := s.Run(ctx, func(x *sampler.Sample) {
			if x.Changes.Known() {
				t.Error("changes are told")
			}
			if s.SwitchStatus().Ended != "" {
				if after++; after > 10 {
					cancel()
				}
			}
		}); err != nil {
			t.Error(err)
		}
		if st := s.SwitchStatus(); st.On || !st.Auto || !strings.Contains(st.Ended, "seccomp") {
			t.Errorf("%+v", st)
		}
		return
	}
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	for name := range calls {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSwitchesRefused$")
		cmd.Env = append(os.Environ(), refusal+"="+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestSwitchesOfTheDying: a process is killed while ddtop attaches, loads its programs, or reads records. At any of
// these times, sampling must end with the process, and no descriptor may be left open.
func TestSwitchesOfTheDying(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.Long(t)
	before := bpfDescriptors(t)
	r := rubytest.One(t)
	on := 0
	const steps = 24
	for i := range steps {
		p := r.Start(t, switching, rubytest.Options{})
		p.Line(t)
		kill := time.AfterFunc(time.Duration(i*i)*time.Millisecond, func() { _ = syscall.Kill(p.PID, syscall.SIGKILL) })
		s, err := live.Open(t.Context(), p.PID, live.Options{From: live.FromSwitches})
		if err != nil {
			kill.Stop()
			continue
		}
		err = s.Run(t.Context(), func(x *sampler.Sample) {
			for k := range x.Changes.List {
				if c := &x.Changes.List[k]; c.AtNS > x.TimeNS || c.AtNS < x.Changes.FromNS {
					t.Errorf("a change at %d, between %d and %d", c.AtNS, x.Changes.FromNS, x.Changes.ToNS)
				}
			}
		})
		if !errors.Is(err, sampler.ErrEnded) {
			t.Errorf("killed after %d ms: %v", i*i, err)
		}
		if st := s.SwitchStatus(); st.On {
			t.Errorf("killed after %d ms: %+v", i*i, st)
		} else if st.Records > 0 {
			on++
		}
		if err := s.Close(); err != nil {
			t.Errorf("killed after %d ms: %v", i*i, err)
		}
	}
	if on == 0 {
		rubytest.TooSeldomNow(t, "no process lived until it was followed")
	}
	if n := bpfDescriptors(t); n > before {
		t.Errorf("%d descriptors of programs are left", n-before)
	}
}

// bpfDescriptors counts the descriptors of this process by which BPF programs and their attachments stay in the kernel.
func bpfDescriptors(t *testing.T) int { return descriptors(t, "bpf") + descriptors(t, "perf_event") }
