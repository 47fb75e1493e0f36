package profile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestFlamegraphHasOwnCodeFirst: like the screen, a flamegraph merges adjacent frames of libraries and leaves out
// threads at rest. With AllFrames, it shows these frames and threads.
func TestFlamegraphHasOwnCodeFirst(t *testing.T) {
	d := sampler.NewDictionary()
	stack := sampler.StackID(0)
	for i := range 5 {
		f := sampler.Frame{Label: fmt.Sprint("Rack::Lib#call", i), Path: "rack.rb", Origin: sampler.OriginGem, Gem: "rack 2.2"}
		stack = d.InternStack(stack, d.InternFrame(f))
	}
	own := d.InternStack(stack, d.InternFrame(sampler.Frame{Label: "Orders#index", Path: "app/orders.rb", Origin: sampler.OriginApp}))
	s := &flamegraph.Snapshot{Entries: []flamegraph.Entry{
		{Key: flamegraph.Key{Thread: 1, Stack: own, State: gvl.Running}, Weights: flamegraph.Weights{WallNS: 2e9, Samples: 200}},
		{Key: flamegraph.Key{Thread: 2, Stack: stack, State: gvl.Parked}, Weights: flamegraph.Weights{WallNS: 2e9, Samples: 200}},
	}}
	for all, want := range map[bool]map[string]bool{
		false: {"Orders#index": true, "5 frames: rack": true, "call2": false, "parked 50.0 %": false, "threads at rest": true},
		true:  {"Orders#index": true, "5 frames: rack": false, "call2": true, "parked 50.0 %": true, "threads at rest": false},
	} {
		var out bytes.Buffer
		if err := WriteFlamegraph(&out, Measured{Dict: d, Weights: s, AllFrames: all}, flamegraph.Wall); err != nil {
			t.Fatal(err)
		}
		for text, there := range want {
			if strings.Contains(out.String(), text) != there {
				t.Errorf("all frames %v: %q is there: %v", all, text, !there)
			}
		}
	}
}
