package cli_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestFrozenProcess: if the process's cgroup or one above it is frozen, no thread can run. dump and stat then say so
// and count no waits. This is true for cgroup versions 1 and 2, whatever the threads were doing.
func TestFrozenProcess(t *testing.T) {
	for _, v2 := range []bool{true, false} {
		t.Run(fmt.Sprint("v2 ", v2), func(t *testing.T) {
			p := rubytest.One(t).Start(t, "3.times { Thread.new { loop { 1000.times { |i| i * i } } } }; puts 'ready'; $stdout.flush; $stdin.gets", rubytest.Options{})
			p.Expect(t, "ready")
			pid := strconv.Itoa(p.PID)
			f := rubytest.NewFreezer(t, p.PID, v2)
			const words = "the process is frozen by its cgroup"
			if r := run(t, "dump", "-p", pid); strings.Contains(r.out, "frozen") {
				t.Errorf("it runs:\n%s", r.out)
			}
			f.Freeze(t)
			var d struct {
				Frozen  bool
				Threads []struct {
					State  string
					Detail struct{ Syscall, Reason string }
				}
			}
			r := run(t, "dump", "-p", pid, "--json")
			r.want(t, 0)
			if err := json.Unmarshal([]byte(r.out), &d); err != nil || !d.Frozen {
				t.Errorf("%v: dump --json does not say that it is frozen: %s", err, r.out)
			}
			for _, x := range d.Threads {
				if x.State == "waiting" || x.State == "stalled" && x.Detail.Syscall != "(frozen)" {
					t.Errorf("a thread of a frozen process: %+v", x)
				}
			}
			var s struct {
				Process struct {
					Frozen   bool
					FrozenNS int64 `json:"frozen_ns"`
				}
				Findings []struct{ ID string }
				GVL      []struct {
					Waits struct{ Count int64 }
				}
				DurationNS int64 `json:"duration_ns"`
			}
			r = run(t, "stat", "-p", pid, "-d", "1s", "--json")
			r.want(t, 0)
			if err := json.Unmarshal([]byte(r.out), &s); err != nil || !s.Process.Frozen || s.Process.FrozenNS != s.DurationNS {
				t.Errorf("%v: stat --json: %+v", err, s)
			}
			for _, f := range s.Findings {
				if f.ID != "frozen" {
					t.Errorf("the finding %s beside one that the process is frozen", f.ID)
				}
			}
			for _, g := range s.GVL {
				if g.Waits.Count > 0 {
					t.Errorf("%d waits in a frozen process", g.Waits.Count)
				}
			}
			for _, args := range [][]string{{"dump"}, {"stat", "-d", "500ms"}} {
				if r := run(t, append(args, "-p", pid)...); !strings.Contains(r.out, words) || strings.Contains(r.out, "slept in the kernel and kept") {
					t.Errorf("%v does not say that it is frozen:\n%s", args, r.out)
				}
			}
			f.Thaw(t)
			if r := run(t, "dump", "-p", pid); strings.Contains(r.out, "frozen") {
				t.Errorf("it runs again:\n%s", r.out)
			}
		})
	}
}
