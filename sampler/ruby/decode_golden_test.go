package ruby

import (
	"flag"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/internal/memtest"
	"github.com/ddtop/ddtop/internal/rubytest"
)

var update = flag.Bool("update", false, "capture testdata from real Rubies anew")

// goldenThreads are the threads that are captured from the parked program, one of each kind.
var goldenThreads = []string{
	"block in block", "alias with blocks", "define_method with block", "default keyword", "rescue in block",
	"nested rescue", "eval", "symbol to_proc", "splat and keywords", "interpolation",
}

// TestCaptureGolden captures the memory of processes in files, but only if the test runs with -update. Tests of package
// code decode the stacks in these files.
func TestCaptureGolden(t *testing.T) {
	if !*update {
		t.Skip("it only makes the files")
	}
	rubytest.Each(t, captureGolden)
}

func captureGolden(t *testing.T, r rubytest.Ruby) {
	p, truth := r.StartParked(t, rubytest.Options{})
	live := openTarget(t, p.PID)
	compareThreads(t, live, truth, true)
	if t.Failed() {
		return
	}
	g := &memtest.Golden{Process: processOf(live)}
	capture := memtest.NewCapture(live.proc)
	_, d, dict, err := open(&g.Process, capture)
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range live.threads(t) {
		name := live.name(t, thread)
		raw, ok := live.threadStack(t, thread, true)
		if !ok || !slices.Contains(goldenThreads, name) {
			continue
		}
		id, info, err := d.Decode(&raw)
		if err != nil || info.FailedNames != 0 {
			t.Fatalf("%s: %v, %d frames without a name", name, err, info.FailedNames)
		}
		g.Stacks = append(g.Stacks, memtest.GoldenStack{Thread: name, End: raw.End, CFP: raw.CFP, Values: raw.ValuesAt, Frames: raw.Frames,
			Used: raw.Values, Want: memtest.Describe(dict, id)})
	}
	if len(g.Stacks) != len(goldenThreads) {
		t.Fatalf("%d threads of %d", len(g.Stacks), len(goldenThreads))
	}
	memtest.Save(t, "internal/code/testdata/golden", g.Version, g, capture)
}
