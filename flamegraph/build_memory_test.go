package flamegraph

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"weak"
)

// TestBuilderForgetsItsTrees: a Builder does not keep the trees that it made before, whatever their sizes.
func TestBuilderForgetsItsTrees(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	w := newWorld(rnd, 300, 2000, 40)
	b := NewBuilder(w.dict)
	s := w.snapshot(rnd, 3000, 8)
	var roots []weak.Pointer[Node]
	var last *Tree
	for n := len(s.Entries); n > 10; n /= 2 { // each tree is smaller than the one before
		part := *s
		part.Entries = s.Entries[:n]
		last = b.Build(&part, Options{})
		roots = append(roots, weak.Make(last.Root))
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		runtime.GC()
		left := 0
		for _, r := range roots[:len(roots)-1] {
			if r.Value() != nil {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d trees are still there", left, len(roots)-1)
		}
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(last)
	runtime.KeepAlive(b)
}
