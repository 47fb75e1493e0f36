package recording

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

var update = flag.Bool("update", false, "write the present version's file in testdata anew")

// TestGolden reads the files that the first build of each version wrote. If the test fails, the format has changed, so
// it needs a new version.
func TestGolden(t *testing.T) {
	for v := 1; v <= Version; v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) { testGolden(t, v) })
	}
}

func testGolden(t *testing.T, version int) {
	path := fmt.Sprintf("testdata/version%d.ddtop", version)
	g := newGenerator(31)
	end := &sampler.End{AtNS: 9, Reason: "exited"}
	g.noFibers = version < 4 // version 4 added the fibers that wait
	g.noTraces = version < 5 // version 5 added the IDs of traces
	g.noChanges = version < 6
	g.noQueues = version < 8
	g.noLocks = version < 9
	g.noNative = version < 11
	g.noUse = version < 12
	g.noRuns = version < 12
	g.noBegun = version < 13
	g.noExceptions = version < 14
	file, want := record(t, 40, g.wild, g.d, end)
	if *update && version == Version {
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if version < 7 { // version 7 added what threads do between changes
		for _, s := range want {
			for i := range s.sample.Changes.List {
				s.sample.Changes.List[i].Doing = sampler.Doing{}
			}
		}
	}
	if version < pathVersion {
		for _, s := range want {
			for i := range s.works {
				s.works[i].Path = ""
			}
		}
	}
	if version < servingVersion {
		for _, s := range want {
			clear(s.works)
			clear(s.texts)
			for i := range s.sample.Threads {
				s.sample.Threads[i].Serving = sampler.Serving{}
			}
		}
	}
	if version < 2 {
		for _, s := range want {
			for i := range s.peers {
				s.peers[i].Process = ""
			}
			for i := range s.sample.Threads {
				s.sample.Threads[i].Kernel.Turns, s.sample.Threads[i].Kernel.Listens = 0, false
			}
		}
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	compare(t, path, readAll(t, r), want)
	if got, ok := r.End(); !ok || got != *end || r.Damage() != nil {
		t.Errorf("end %+v, damage %v", got, r.Damage())
	}
}
