package ui

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestSummaryOfRequests: the summary that the user can copy has a table of the routes in the time that is shown. Names
// with special characters must not break its Markdown.
func TestSummaryOfRequests(t *testing.T) {
	var lengths gvl.Histogram
	lengths.Add(20e6)
	s := scene.Served{WaitNS: 4e9, Endpoints: []account.Endpoint{
		{Kind: sampler.WorkRequest, Name: "GET /a|b/:id", Ended: 7, Running: 2, Durations: lengths, LongestNS: 3e9, LongestAtLeast: true, BlameNS: 1e9},
		{Kind: sampler.WorkJob, Ended: 1, LongestNS: 1e9},
		{Other: true},
	}}
	var b strings.Builder
	servedSummary(&s, &b)
	want := "\nRequests and jobs, as far as seen:\n\n| endpoint | ended | running | p50 | p95 | longest | ± | blame |\n|---|--:|--:|--:|--:|--:|--:|--:|\n" +
		"| GET /a\\|b/:id | 7 | 2 | 20 ms | 20 ms | ≥3.00 s |  | 25 % |\n| (job, class not known) | 1 | 0 | – | – | 1.00 s |  | 0 % |\n| (others) | 0 | 0 | – | – | – |  | 0 % |\n"
	if b.String() != want {
		t.Errorf("%s\nwant%s", b.String(), want)
	}
	b.Reset()
	if servedSummary(new(scene.Served), &b); b.Len() != 0 {
		t.Errorf("without requests: %s", b.String())
	}
}
