package cli_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// dumped has the fields of the JSON of `ddtop dump --json` that the tests compare with what Ruby says.
type dumped struct {
	Threads []struct {
		ID     int
		TID    *int32
		Name   *string
		Status string
		State  string
		Detail map[string]any
		Frames []dumpedFrame
		Failed bool
	}
	Reads struct{ Failed int }
}

type dumpedFrame struct {
	Label        string
	Path         *string
	AbsolutePath *string `json:"absolute_path"`
	Line         int32
	Uncertain    bool
}

func dump(t *testing.T, pid int) dumped {
	t.Helper()
	r := run(t, "dump", "-p", strconv.Itoa(pid), "--json")
	r.want(t, 0)
	var d dumped
	if err := json.Unmarshal([]byte(r.out), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDumpEqualsBacktraceLocations compares dump's stacks with Ruby's own Thread#backtrace_locations, frame by frame.
// The threads of the program wait, so that their stacks stay the same. The test compares path, absolute path and line
// on every Ruby. It compares labels on 3.4 and later, where Ruby prints qualified labels as ddtop does.
func TestDumpEqualsBacktraceLocations(t *testing.T) {
	t.Parallel()
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel() // the test mostly waits, and does not depend on what else runs
		p, truth := r.StartParked(t, rubytest.Options{})
		d := dump(t, p.PID)
		compared := 0
		for _, th := range d.Threads {
			if th.Name == nil || *th.Name == rubytest.ReporterName {
				continue
			}
			want, ok := truth.Thread(*th.Name)
			if !ok {
				t.Errorf("%s: Ruby knows no such thread", *th.Name)
				continue
			}
			compared++
			if th.Status != want.Status {
				t.Errorf("%s: status %s, Ruby says %s", *th.Name, th.Status, want.Status)
			}
			if want.TID != 0 && (th.TID == nil || *th.TID != want.TID) {
				t.Errorf("%s: tid %v, Ruby says %d", *th.Name, th.TID, want.TID)
			}
			compareFrames(t, *th.Name, th.Frames, want.Frames, r.AtLeast(3, 4))
		}
		if compared < 20 || compared != len(truth.Threads) {
			t.Errorf("%d threads compared of the %d that Ruby has", compared, len(truth.Threads))
		}
	})
}

func compareFrames(t *testing.T, thread string, got []dumpedFrame, want []rubytest.TruthFrame, labels bool) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d frames, Ruby says %d", thread, len(got), len(want))
		return
	}
	for i := range got {
		g, w := place(got[i].Path, got[i].AbsolutePath, got[i].Line), place(want[i].Path, want[i].AbsolutePath, want[i].Line)
		if labels {
			g, w = g+" "+got[i].Label, w+" "+want[i].Label
		}
		if g != w || got[i].Uncertain {
			t.Errorf("%s, frame %d: %s (uncertain: %v), Ruby says %s", thread, i, g, got[i].Uncertain, w)
			return
		}
	}
}

// place returns the place of a frame in the source code as text. Ruby distinguishes an empty path (eval with "" as its
// file) from nil. place treats both the same, because sampler.Frame does too.
func place(path, absolute *string, line int32) string {
	text := func(s *string) string {
		if s == nil || *s == "" {
			return "nil"
		}
		return strconv.Quote(*s)
	}
	return fmt.Sprintf("%s %s:%d", text(path), text(absolute), line)
}

// TestDumpNamesTheStates compares dump with what a program says about its own threads: in which states they are, and
// what they wait for.
func TestDumpNamesTheStates(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel() // the test mostly waits, and does not depend on what else runs
		p, truth := r.StartStates(t, rubytest.Options{})
		d := dump(t, p.PID)
		names := make(map[int]string)
		for _, th := range d.Threads {
			if th.Name != nil {
				names[th.ID] = *th.Name
			}
		}
		compared := 0
		for _, th := range d.Threads {
			if th.Name == nil {
				continue
			}
			want, ok := truth.Thread(*th.Name)
			if !ok || len(want.States) == 0 {
				continue
			}
			compared++
			if !slices.Contains(want.States, th.State) {
				t.Errorf("%s: %s %v, the program says %v", *th.Name, th.State, th.Detail, want.States)
				continue
			}
			if want.Object != "" && th.Detail["kind"] != want.Object {
				t.Errorf("%s: it waits for %v, the program says %s", *th.Name, th.Detail, want.Object)
			}
			holder, ok := th.Detail["holder"].(float64)
			if !ok {
				holder, _ = th.Detail["joined"].(float64)
			}
			if want.Holder != "" && names[int(holder)] != want.Holder {
				t.Errorf("%s: it waits for thread %q (%v), the program says %q", *th.Name, names[int(holder)], th.Detail, want.Holder)
			}
		}
		if compared < 10 {
			rubytest.TooSeldom(t, "only %d threads compared", compared)
		}
	})
}
