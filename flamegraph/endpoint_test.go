package flamegraph

import (
	"fmt"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestWeightsByEndpoint: time goes to the route for which the thread worked. The tree of one route has only the time of
// this route.
func TestWeightsByEndpoint(t *testing.T) {
	dict := sampler.NewDictionary()
	r := newRolling(t, 0, 0)
	f := newFeeder(sampler.Process{}, r)
	f.c.ByEndpoint(dict)
	work := func(n int, endpoint string) sampler.WorkID {
		return dict.InternWork(sampler.Work{Number: sampler.WorkNumber(n), Kind: sampler.WorkRequest, Endpoint: endpoint})
	}
	stack := dict.InternStack(0, dict.InternFrame(sampler.Frame{Label: "Server#handle"}))
	for i, w := range []sampler.WorkID{work(1, "GET a#b"), work(1, "GET a#b"), work(2, "GET c#d"), 0, work(3, "GET a#b"), work(3, "GET a#b")} {
		th := sampler.Thread{ID: 1, Ractor: 1, Stack: stack, Serving: sampler.Serving{Work: w}}
		f.Feed(sample(int64(1000+i*100), sampler.StackTick, th), seen(gvl.Running))
	}
	f.Finish()
	var s Snapshot
	r.Snapshot(&s)
	for name, want := range map[string]int64{"GET a#b": 300, "GET c#d": 100, "GET e#f": 0} {
		id := f.c.Endpoint(Endpoint{sampler.WorkRequest, name})
		if id == 0 {
			id = NoEndpoint
		}
		tree := NewBuilder(dict).Build(&s, Options{Metric: Wall, Endpoint: id})
		if tree.Root.Total != want || tree.Root.Total+tree.Excluded != 500 {
			t.Errorf("%s: %d ns and %d of others, want %d of 500", name, tree.Root.Total, tree.Excluded, want)
		}
		under := tree.Under(dict, tree.Root)
		for i := range s.Entries {
			if k := s.Entries[i].Key; under(k) != (k.Endpoint == id) {
				t.Errorf("%s: %+v", name, k)
			}
		}
	}
}

// TestManyEndpoints: the number of endpoints with their own EndpointID is limited. Further endpoints must share the ID
// 0.
func TestManyEndpoints(t *testing.T) {
	dict := sampler.NewDictionary()
	var e endpoints
	e.begin(dict, false)
	for i := range maxEndpoints + 10 {
		id := dict.InternWork(sampler.Work{Number: sampler.WorkNumber(i + 1), Kind: sampler.WorkJob, Endpoint: fmt.Sprintf("Job%d", i)})
		want := EndpointID(i + 1)
		if i >= maxEndpoints {
			want = 0
		}
		s := &sampler.Serving{Work: id, Span: 7}
		if got := e.of(s); got != want || e.of(s) != want {
			t.Fatalf("endpoint %d is %d", i, got)
		}
	}
	if e.of(&sampler.Serving{}) != 0 || e.of(&sampler.Serving{Work: 1 << 30}) != 0 {
		t.Error("nobody has an endpoint")
	}
}

// TestManySpans: the number of spans with their own EndpointID is limited. Beyond this limit, weights are still
// separated by endpoint.
func TestManySpans(t *testing.T) {
	dict := sampler.NewDictionary()
	var e endpoints
	e.begin(dict, true)
	id := dict.InternWork(sampler.Work{Number: 1, Kind: sampler.WorkRequest, Endpoint: "GET a#b"})
	want := Served{Endpoint: Endpoint{sampler.WorkRequest, "GET a#b"}}
	for span := range uint64(maxSpans + 10) {
		want.Span, want.RootSpan = span+1, 5
		if span >= maxSpans {
			want.Span, want.RootSpan = 0, 0
		}
		if got := e.of(&sampler.Serving{Work: id, Span: span + 1, RootSpan: 5}); e.list[got] != want {
			t.Fatalf("span %d of %+v", span, e.list[got])
		}
	}
	if got := e.of(&sampler.Serving{Span: 1}); e.list[got] != (Served{}) {
		t.Errorf("a span without a request, past the limit: %+v", e.list[got])
	}
	if len(e.list) > maxSpans+maxEndpoints+1 {
		t.Errorf("%d are kept apart", len(e.list))
	}
}

// TestSpansTakeNoStacks: each request is a new span with its own stacks. In a long measurement, the spans must not use
// up all keys, because later requests still need keys for their stacks and routes.
func TestSpansTakeNoStacks(t *testing.T) {
	dict := sampler.NewDictionary()
	r, err := NewRolling(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.maxKeys = 1000
	var c Collector
	c.BySpan(dict, r.Crowded)
	told := 0
	for n := range uint64(5000) {
		w := dict.InternWork(sampler.Work{Number: sampler.WorkNumber(n + 1), Kind: sampler.WorkRequest, Endpoint: fmt.Sprint("GET a#", n%3)})
		id := c.served.of(&sampler.Serving{Work: w, Span: n + 1, RootSpan: n + 1})
		if s := c.Served()[id]; s.Span != 0 {
			told++
		} else if s.Name != fmt.Sprint("GET a#", n%3) {
			t.Fatalf("request %d is of %+v", n, s)
		}
		for stack := range sampler.StackID(10) {
			r.Add(int64(n), Key{Thread: 1, Stack: stack + 1, Endpoint: id}, Weights{WallNS: 1})
		}
	}
	s := new(Snapshot)
	r.Snapshot(s)
	if s.Overflow != 0 || told < 50 || told > 60 {
		t.Errorf("%d stacks given up, %d spans told apart", s.Overflow, told)
	}
}
