package demosource

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

func TestSourceIsDeterministicAndConsistent(t *testing.T) {
	run := func() []*sampler.Sample {
		var all []*sampler.Sample
		s := New(Options{Length: 3 * time.Second, HogAfter: time.Second, KilledAtEnd: true})
		err := s.Run(context.Background(), func(x *sampler.Sample) { all = append(all, x.Clone()) })
		if !errors.Is(err, sampler.ErrEnded) {
			t.Fatalf("Run: %v", err)
		}
		if e, ok := s.End(); !ok || e.ExitCode != 137 {
			t.Fatalf("End: %+v, %v", e, ok)
		}
		return all
	}
	a, b := run(), run()
	if !reflect.DeepEqual(a, b) {
		t.Fatal("two runs with the same options differ")
	}
	if len(a) != 3000 {
		t.Fatalf("%d samples in 3 s at 1 kHz", len(a))
	}
	held := 0
	for _, s := range a {
		owner := s.Ractors[0].OwnerEnd
		if owner != 0 {
			held++
		}
		for _, th := range s.Threads {
			if linked := th.Bits&sampler.BitLinked != 0; linked != (th.ID == owner) {
				t.Fatalf("at %d thread %d: linked %v, owner %d", s.TimeNS, th.ID, linked, owner)
			}
		}
		for _, id := range s.Ractors[0].Queue {
			if s.Threads[id-1].Bits&sampler.BitQueued == 0 {
				t.Fatalf("at %d thread %d is in the queue without its bit", s.TimeNS, id)
			}
		}
	}
	if held < 2000 {
		t.Fatalf("the GVL was held in %d of 3000 samples; the hog should keep it from 1 s on", held)
	}
}
