package waits

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// TestASentenceHasWholeNames: the sentence about a wait has colons of its own. Names can contain colons, too: methods
// with ::, or names of threads. Such a name must not be cut at its colon.
func TestASentenceHasWholeNames(t *testing.T) {
	var c store.WaitChain
	c.LenNS = 100e6
	c.Sum.HandoverNS = 10e6
	for i, method := range []string{"ActiveRecord::Base.find", "Redis::Client#call", "Order#a", "Order#b"} {
		part := stream.ChainPart{Thread: sampler.ThreadID(i + 1), State: gvl.Running, Method: method, NS: int64(30-i) * 1e6}
		c.Sum.Parts = append(c.Sum.Parts, part)
	}
	w := &WaitRow{Name: "worker: mail"}
	w.LenNS, w.LeastNS, w.MostNS, w.Exact = 100e6, 100e6, 100e6, true
	got := chainSentence(&c, w, &scene.Scene{Dict: sampler.NewDictionary()})
	for _, want := range []string{"worker: mail waited 100 ms: ", "behind ActiveRecord::Base.find (",
		"behind Redis::Client#call (", "behind 2 other places", "10 ms hand-over"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if strings.Contains(got, "chosen") {
		t.Errorf("%q explains the hand-over, as a row does", got)
	}
}
