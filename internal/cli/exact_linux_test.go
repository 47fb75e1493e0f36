package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// handsOn has three threads hand the GVL to each other: two compute, one sleeps in between.
const handsOn = `$stdout.sync = true
2.times { |i| Thread.new { Thread.current.name = "busy #{i}"; n = 0; loop { n += 1 } } }
Thread.new { Thread.current.name = "sleeper"; loop { sleep 0.001 } }
puts "ready"
$stdin.gets`

// eachExact runs a test on each Ruby that exact mode is for, where the machine allows it.
func eachExact(t *testing.T, test func(t *testing.T, r rubytest.Ruby)) {
	if err := probe.Try(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		if !r.AtLeast(3, 3) {
			rubytest.Skip(t, "exact mode is for Ruby 3.3 and later")
		}
		test(t, r)
	})
}

// codeOf says how much of a process's libruby differs from its file, in bytes.
func codeOf(t *testing.T, pid int) (different int) {
	t.Helper()
	p, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, m := range maps {
		if !m.Exec || !strings.Contains(m.Path, "libruby") {
			continue
		}
		f, err := os.Open(p.Path("map_files", fmt.Sprintf("%x-%x", uint64(m.Start), uint64(m.End))))
		if errors.Is(err, os.ErrPermission) {
			f, err = os.Open(p.Path("root") + m.Path)
		}
		if err != nil {
			t.Fatal(err)
		}
		memory, file := make([]byte, m.End-m.Start), make([]byte, m.End-m.Start)
		err = p.Read(m.Start, memory)
		n, _ := f.ReadAt(file, int64(m.Offset)) // the last page can be longer than the file
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		seen = true
		for i := range n {
			if memory[i] != file[i] {
				different++
			}
		}
	}
	if !seen {
		t.Fatal("no code of libruby is mapped")
	}
	return different
}

// probed waits until a process has probes in its code, or has them no more.
func probed(t *testing.T, pid int, wanted bool) {
	t.Helper()
	for deadline := time.Now().Add(rubytest.Timeout); ; time.Sleep(5 * time.Millisecond) {
		n := codeOf(t, pid)
		if n != 0 == wanted {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes of its code are not the file's", n)
		}
	}
}

func TestStatExact(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, handsOn, rubytest.Options{})
		p.Expect(t, "ready")
		rubytest.NeedLibrary(t, p)
		pid := strconv.Itoa(p.PID)
		got := run(t, "stat", pid, "-d", "2s", "--exact", "--exact-cost", "off", "--json")
		got.want(t, 0)
		var stat gvl.Stat
		if err := json.Unmarshal([]byte(got.out), &stat); err != nil {
			t.Fatal(err)
		}
		x := stat.Exact
		if x == nil || x.Wrong || x.Ended != "" {
			t.Fatalf("%+v", x)
		}
		if x.DurationNS < 1e9 || x.HeldNS <= 0 || x.HeldNS > x.DurationNS || x.Turns < 2 || x.Waits.Count < 1 || len(x.Threads) < 3 || len(x.Longest) < 1 ||
			x.Probes.Records == 0 || x.Probes.Lost != 0 || x.Probes.HitNS <= 0 {
			t.Errorf("%+v", x)
		}
		if x.Longest[0].NS != x.Waits.MaxNS || x.Waits.P50NS > x.Waits.P90NS || x.Waits.P99NS > x.Waits.MaxNS {
			t.Errorf("%+v, longest %+v", x.Waits, x.Longest)
		}
		known := make(map[int32]bool)
		for _, th := range stat.Threads {
			if th.TID != nil {
				known[*th.TID] = true
			}
		}
		for _, th := range x.Threads {
			if !known[th.TID] {
				t.Errorf("thread %d is none of Ruby's", th.TID)
			}
			if sum := th.RunningNS + th.WaitingNS + th.ReleasedNS; sum != x.DurationNS {
				t.Errorf("thread %d: its times come to %d ns of %d", th.TID, sum, x.DurationNS)
			}
		}
		if n := codeOf(t, p.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the file's afterwards", n)
		}

		text := run(t, "stat", pid, "-d", "1s", "--exact", "--exact-cost", "off")
		text.want(t, 0)
		for _, want := range []string{"exact, ", "GVL held", "of the waiting", "busy 0", "the longest waits, exact", "in the queue", "probes: ", "sampling agreed"} {
			if !strings.Contains(text.out, want) {
				t.Errorf("no %q in\n%s", want, text.out)
			}
		}
		plain := run(t, "stat", pid, "-d", "100ms", "--json")
		plain.want(t, 0)
		if !strings.Contains(plain.out, `"exact": null`) {
			t.Errorf("without --exact:\n%s", plain.out)
		}
	})
}

// TestExactLeavesNothing: however ddtop ends, the process's code is the file's afterwards, and the process goes on.
func TestExactLeavesNothing(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, handsOn, rubytest.Options{})
		p.Expect(t, "ready")
		rubytest.NeedLibrary(t, p)
		kills := 10
		if testing.Short() {
			kills = 3
		}
		if n, err := strconv.Atoi(os.Getenv("DDTOP_TEST_KILLS")); err == nil {
			kills = n
		}
		for i := range kills + 2 {
			signal := syscall.SIGKILL
			switch i {
			case 0:
				signal = syscall.SIGTERM
			case 1:
				signal = syscall.SIGQUIT // a crash: Go prints its goroutines
			}
			cmd, _, _ := prepare(t.Context(), "stat", strconv.Itoa(p.PID), "-d", "1h", "--exact", "--exact-cost", "off")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			probed(t, p.PID, true)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // that it was killed
			probed(t, p.PID, false)
		}
		p.Send(t, "") // it still is there, and ends
	})
}

func TestExactIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"stat", "-p", "1,2", "--exact"}, {"stat", "1", "--exact", "--interval", "1s"}, {"stat", "1", "--exact-cost", "5%"}, {"stat", "1", "--exact", "--pause"},
	} {
		run(t, args...).want(t, 2, "--exact")
	}
	if err := probe.Try(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		if r.AtLeast(3, 3) {
			rubytest.Skip(t, "exact mode is for this Ruby")
		}
		p := r.Start(t, handsOn, rubytest.Options{})
		p.Expect(t, "ready")
		rubytest.NeedLibrary(t, p)
		run(t, "stat", strconv.Itoa(p.PID), "-d", "1s", "--exact").want(t, 1, "--exact: process "+strconv.Itoa(p.PID), "from 3.3 on")
		if n := codeOf(t, p.PID); n != 0 {
			t.Errorf("%d bytes of its code are not the file's", n)
		}
	})
}
