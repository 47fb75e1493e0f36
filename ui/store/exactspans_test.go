package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestExactSpans: an exact span is a time span in which every change of the GVL is known. If one span follows another
// without a gap, both become one span. After a gap, or if Changes.Fresh is set, a new span begins.
func TestExactSpans(t *testing.T) {
	var x ExactSpans
	for _, c := range []sampler.Changes{{}, {FromNS: 10, ToNS: 20, Fresh: true}, {FromNS: 20, ToNS: 30}, {}, {FromNS: 50, ToNS: 60, Fresh: true}, {FromNS: 60, ToNS: 100}} {
		x.add(&c)
	}
	if want := (ExactSpans{{10, 30}, {50, 100}}); !slices.Equal(x, want) {
		t.Fatalf("%v, want %v", x, want)
	}
	for _, c := range []struct {
		from, to int64
		want     string
	}{{12, 28, "exact"}, {50, 100, "exact"}, {20, 60, "exact in part"}, {30, 50, ""}, {100, 200, ""}, {0, 10, ""}} {
		if got := x.Words(c.from, c.to); got != c.want {
			t.Errorf("%d to %d: %q, want %q", c.from, c.to, got, c.want)
		}
	}
	for i := range int64(3 * maxExactSpans) {
		x.add(&sampler.Changes{FromNS: 1000 * i, ToNS: 1000*i + 1, Fresh: true})
	}
	if len(x) != maxExactSpans || !strings.Contains(x.Words(1000*(3*maxExactSpans-1), 1000*(3*maxExactSpans-1)+1), "exact") {
		t.Errorf("%d stretches", len(x))
	}
}
