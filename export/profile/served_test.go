package profile

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/sampler"
)

// servedShop is the invented shop with a change: part of the time of its first entry belongs to three requests, and
// part to no request. One of the requests has no name.
func servedShop() Measured {
	m := measured(exporttest.NewShop())
	served := func(name string, span uint64) flamegraph.Served {
		return flamegraph.Served{Endpoint: flamegraph.Endpoint{Kind: sampler.WorkRequest, Name: name}, Span: span, RootSpan: span / 2}
	}
	m.Served = []flamegraph.Served{{}, served("GET a#b", 1<<63+1), served("POST c#d", 0), served("", 0)}
	first := m.Weights.Entries[0]
	var entries []flamegraph.Entry
	for id := range flamegraph.EndpointID(4) {
		e := first
		e.Key.Endpoint, e.Weights.BlameNS = id, 0
		entries = append(entries, e)
	}
	s := *m.Weights
	s.Entries = append(entries, s.Entries[1:]...)
	m.Weights = &s
	return m
}

// TestProfileServed: the labels of a pprof sample name the request for which the thread worked, with the label names
// that Datadog uses. Formats without labels have one line for all requests.
func TestProfileServed(t *testing.T) {
	m := servedShop()
	var b bytes.Buffer
	if err := WriteProfile(&b, m); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, s := range p.Sample {
		if s.Label[LabelState][0] == gvl.DatadogCPU && s.Label[LabelDdtopState][0] == "io" {
			continue // the CPU time of a thread in io has its own sample
		}
		got[fmt.Sprint(s.Label[labelEndpoint], s.NumLabel[labelSpan], s.NumLabel[labelRootSpan])]++
	}
	if want := map[string]int{"[GET a#b] [-9223372036854775807] [4611686018427387904]": 1, "[POST c#d] [] []": 1, "[] [] []": len(m.Weights.Entries) - 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	plain := measured(exporttest.NewShop())
	for _, e := range m.Weights.Entries[1:4] {
		plain.Weights.Entries[0].Weights = plain.Weights.Entries[0].Weights.Plus(e.Weights)
	}
	for name, write := range map[string]func(*bytes.Buffer, Measured) error{
		"collapsed":  func(b *bytes.Buffer, m Measured) error { return WriteCollapsed(b, m, flamegraph.Wall) },
		"speedscope": func(b *bytes.Buffer, m Measured) error { return WriteSpeedscope(b, m, flamegraph.Wall) },
	} {
		var one, other bytes.Buffer
		if err := write(&one, m); err != nil {
			t.Fatal(err)
		}
		if err := write(&other, plain); err != nil || one.String() != other.String() {
			t.Errorf("%s differs: %v\n%s\n%s", name, err, one.String(), other.String())
		}
	}
}

// TestOnlyEndpoints: OnlyEndpoints must keep only the entries of matching requests, and must not change these. It must
// drop entries without a request.
func TestOnlyEndpoints(t *testing.T) {
	m := servedShop()
	before := len(m.Weights.Entries)
	all := m.Weights
	m.OnlyEndpoints(func(name string) bool { return strings.HasPrefix(name, "GET ") })
	if len(m.Weights.Entries) != 1 || m.Weights.Entries[0].Weights.WallNS != 21e9 || len(all.Entries) != before {
		t.Errorf("%+v of %d", m.Weights.Entries, before)
	}
}
