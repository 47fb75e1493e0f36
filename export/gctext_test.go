package export

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestDumpGC: a dump must have exactly one line about the garbage collector, whatever phase a collection is in.
func TestDumpGC(t *testing.T) {
	for _, c := range []struct {
		name string
		gc   sampler.GC
		want string
	}{
		{"not read", sampler.GC{}, "GC: could not be read"},
		{"never", sampler.GC{Valid: true}, "GC: 0 minor, 0 major"},
		{"idle", sampler.GC{Valid: true, MinorCount: 3, Reason: sampler.GCByNewObject}, "GC: 3 minor, 0 major; last: minor, by no free slot"},
		{"marking", sampler.GC{Valid: true, MajorCount: 1, During: true, Mode: sampler.GCMarking, Reason: sampler.GCByMethod | sampler.GCMajorByForce},
			"GC: 0 minor, 1 major; now: major, by GC.start, in mark"},
		{"between steps", sampler.GC{Valid: true, MinorCount: 1, Mode: sampler.GCSweeping, Reason: sampler.GCByMalloc},
			"GC: 1 minor, 0 major; now: minor, by the malloc limit, in sweep (between steps)"},
		{"setting up", sampler.GC{Valid: true, MinorCount: 1, During: true, Reason: sampler.GCByMalloc},
			"GC: 1 minor, 0 major; now: minor, by the malloc limit"},
		{"compaction", sampler.GC{Valid: true, MajorCount: 1, Reason: 0x3a408}, "GC: 0 minor, 1 major; last: major with compaction, by GC.compact"},
		{"full", sampler.GC{Valid: true, MajorCount: 1, Reason: 0x101}, "GC: 0 minor, 1 major; last: major (the heap was full), by no free slot"},
	} {
		s := exporttest.NewShop()
		s.Sample.GC, s.Sample.GCDetail = c.gc, sampler.GCDetail{}
		var b strings.Builder
		if err := dumpOf(s).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "\n"+c.want+"\n") {
			t.Errorf("%s: no line %q in\n%s", c.name, c.want, b.String())
		}
	}
}

// TestStatGC: stat reports the collections with their reasons, the code in which they began, and the code that ran the
// collector. It also reports how full the heap is.
func TestStatGC(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	place := func(label, caller string) report.StatCode {
		return report.StatCode{Label: label, Path: "app/a.rb", Line: 7, Caller: caller}
	}
	s := report.Stat{DurationNS: 10e9, GC: report.StatGC{
		Valid: true, Count: 9, Minor: 7, Major: 2, NS: 1e9, Allocated: 12_340_000, AllocatedPerSecond: 1_234_000,
		By: report.StatGCBy{NewObj: 5, Method: 3, Unknown: 1},
		Triggers: []report.StatGCTrigger{{StatCode: place("GC.start", "A#run\x1b"), Seen: 3}, {StatCode: place("A#b", ""), Seen: 2, Probable: 2},
			{StatCode: place("A#c", ""), Probable: 1}, {StatCode: place("A#d", ""), Seen: 1}},
		Payers:  []report.StatGCPayer{{StatCode: place("Array#dup", "A#b"), NS: 9e8, Share: .9}, {NS: 1e8, Share: .1}},
		Figures: &report.GCFigures{Live: n(100), Available: n(40_000), Malloc: n(1 << 20), MallocLimit: n(16 << 20), Disabled: true},
	}}
	var b strings.Builder
	statGC(&b, s)
	want := `GC   9 (7 minor, 2 major), 1 s = 10 % of the time; 12340000 objects allocated, 1.2 M/s
     started by no free slot 5, GC.start 3, not seen 1
     3 began in GC.start of A#run` + "\uFFFD" + ` (app/a.rb:7)
     4 began in A#b (app/a.rb:7) (2 of them there or shortly before)
     1 began in A#c (app/a.rb:7), or shortly before it
     90 % of the time in it was spent under Array#dup of A#b (app/a.rb:7)
     heap: 100 of 40.0 k slots used; malloc 1.0 MB of 16.8 MB until the next; GC.disable
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestCountText: large counts have a unit. Counts that do not fit into an integer must have a text, too, because a
// damaged recording can contain them.
func TestCountText(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 9999: "9999", 41_200: "41.2 k", 3.4e6: "3.4 M", 1.2e9: "1.2 G", 3e19: "30000000000.0 G"} {
		if got := CountText(v); got != want {
			t.Errorf("%g: %q, want %q", v, got, want)
		}
	}
}
