package profile

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/exporttest"
)

// TestAllocationExports: if enough allocations were sampled, exports estimate the number of allocated objects.
// Otherwise a profile has no allocations, and the other formats return an error.
func TestAllocationExports(t *testing.T) {
	s := exporttest.NewShop()
	m := measured(s)
	p, err := Profile(m)
	if err != nil || len(p.SampleType) != 7 {
		t.Fatalf("%d sample types without allocations, %v", len(p.SampleType), err)
	}
	var b bytes.Buffer
	if err := WriteCollapsed(&b, m, flamegraph.Allocations); !errors.Is(err, errTooFew) || b.Len() > 0 {
		t.Errorf("collapsed: %v, %q", err, b.String())
	}
	if err := WriteSpeedscope(&b, m, flamegraph.Allocations); !errors.Is(err, errTooFew) || b.Len() > 0 {
		t.Errorf("speedscope: %v, %q", err, b.String())
	}
	e := m.Weights.Entries
	e[0].Weights.AllocSeen, e[0].Weights.AllocTicks, e[0].Weights.AllocTotal = 900, 150, 1_000_000
	e[1].Weights.AllocSeen, e[1].Weights.AllocTicks = 300, 50
	p, err = Profile(m)
	if err != nil || len(p.SampleType) != 9 {
		t.Fatalf("sample types %v, %v", p.SampleType, err)
	}
	for i, want := range []string{"alloc-objects", "alloc-samples"} {
		if got := p.SampleType[7+i]; got.Type != want || got.Unit != "count" {
			t.Errorf("sample type %s in %s, want %s", got.Type, got.Unit, want)
		}
	}
	var sum, largest int64
	for _, x := range p.Sample {
		sum += x.Value[7]
		largest = max(largest, x.Value[7])
		if x.Value[8] != x.Value[7] {
			t.Errorf("values %v", x.Value)
		}
	}
	if sum != 1_000_000 || largest != 750_000 {
		t.Errorf("%d objects, the largest %d; want 1000000 and 750000", sum, largest)
	}
	if c := strings.Join(p.Comments, "\n"); !strings.Contains(c, "an estimate from 200 instants, ± 7 %; its sum, 1000000, is exact") {
		t.Errorf("comments %q", c)
	}
	if err := WriteCollapsed(&b, m, flamegraph.Allocations); err != nil || strings.Count(b.String(), "\n") != 2 || !strings.Contains(b.String(), " 750000\n") {
		t.Errorf("collapsed: %v\n%s", err, b.String())
	}
	b.Reset()
	if err := WriteSpeedscope(&b, m, flamegraph.Allocations); err != nil || !strings.Contains(b.String(), "750000") {
		t.Errorf("speedscope: %v\n%s", err, b.String())
	}
}
