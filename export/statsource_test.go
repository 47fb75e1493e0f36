package export

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/report"
)

// TestStatSource: stat must name the source from which ddtop learned the states of threads. If the source is polling,
// stat must say nothing, unless the user asked for another source.
func TestStatSource(t *testing.T) {
	for _, c := range []struct {
		is   *report.StatSource
		want string
	}{
		{nil, ""},
		{&report.StatSource{Kind: "polling"}, ""},
		{&report.StatSource{Kind: "polling", Why: "its threads share native threads"}, "by polling: its threads share native threads\n"},
		{&report.StatSource{Kind: "moved", Records: 5000, Lost: 2},
			"by the moves of threads: 500 records a second; what threads did between two looks at memory is concluded; 2 had no room\n"},
		{&report.StatSource{Kind: "switches"}, "by thread switches: 0 records a second, which take the kernel 0 % of a CPU\n"},
		{&report.StatSource{Kind: "switches", Records: 5000, KernelNS: 20e6, Lost: 7, FailedWords: 3},
			"by thread switches: 500 records a second, which take the kernel 0.2 % of a CPU; 7 had no room; 3 words of memory could not be read\n"},
		{&report.StatSource{Kind: "polling", Records: 5000, KernelNS: 20e6, Why: "the process has made ractors"},
			"by thread switches: 500 records a second, which take the kernel 0.2 % of a CPU; polled from then on: the process has made ractors\n"},
	} {
		var b strings.Builder
		statSource(&b, &report.Stat{DurationNS: 10e9, Source: c.is})
		if b.String() != c.want {
			t.Errorf("%+v: %q, not %q", c.is, b.String(), c.want)
		}
	}
}
