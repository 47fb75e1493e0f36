package export

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/golden"
	"github.com/ddtop/ddtop/report"
)

// TestStatLine: each value is printed under its heading, and contains no blank.
func TestStatLine(t *testing.T) {
	allocated, cpu := uint64(6_200_000), 1.034
	at := time.Date(2026, 11, 23, 7, 4, 5, 0, time.UTC)
	full := report.StatLine{
		PID: 4242, DurationNS: 1e9, Threads: 17, HeldShare: .993, WaitingMean: 13.18,
		NS:        report.StatStates{Running: 9e8, Stalled: 1e7, GC: 83e6, Waiting: 13.18e9, Native: 5e6, IO: 1e9, Lock: 25e7, Parked: 5e8, Sleeping: 1e9, Unknown: 3e6},
		Waits:     report.LineWaits{Count: 12, P50NS: 1e6, P99NS: 166e6, MaxNS: 2.5e9},
		GC:        report.LineGC{Count: 12, Minor: 10, Major: 2, NS: 83e6, Share: .083},
		Allocated: &allocated, CPUShare: &cpu, RSSBytes: 512e6,
	}
	empty := report.StatLine{PID: 17, DurationNS: 1e9}
	for name, several := range map[string]bool{"statlines.txt": false, "statlines-several.txt": true} {
		var b strings.Builder
		b.WriteString(StatLinesHead(several))
		for _, l := range []report.StatLine{full, empty, {PID: 18}} {
			if err := WriteStatLine(&b, report.TimedLine{Time: at, StatLine: l}, several); err != nil {
				t.Fatal(err)
			}
		}
		golden.Check(t, name, []byte(b.String()))
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		for _, l := range lines {
			if len(strings.Fields(l)) != len(strings.Fields(lines[0])) || !several && len([]rune(l)) > 120 {
				t.Errorf("%q has other columns than %q", l, lines[0])
			}
		}
	}
}
