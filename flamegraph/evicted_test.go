package flamegraph

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// sinkOf is a Sink that keeps the key of each call of Add.
type sinkOf []Key

func (s *sinkOf) Add(_ int64, k Key, _ Weights) { *s = append(*s, k) }

// TestEvictedRequestKeepsItsName: if the Dictionary evicts a request, weights with spans keep the request's name.
func TestEvictedRequestKeepsItsName(t *testing.T) {
	d := sampler.NewDictionary()
	var got sinkOf
	c := &Collector{out: []Sink{&got}}
	c.BySpan(d, nil)
	work := d.InternWork(sampler.Work{Number: 1, Kind: sampler.WorkRequest, Endpoint: "GET a#b"})
	serving := sampler.Serving{Work: work, Span: 5, RootSpan: 4}
	c.emit(1, Key{Endpoint: c.request(&serving)}, Weights{Samples: 1})
	k := sampler.NewKeeper(d, 1)
	for i := range int64(8) {
		k.Feed(&sampler.Sample{TimeNS: 1 + i*40e9}, false)
	}
	if w := d.Work(work); w.Kind != sampler.WorkNone {
		t.Fatalf("the request is still known: %+v", w)
	}
	c.Finish()
	if len(got) != 1 || c.Served()[got[0].Endpoint].Name != "GET a#b" {
		t.Errorf("got %v of %+v, want the weights of GET a#b", got, c.Served())
	}
}
