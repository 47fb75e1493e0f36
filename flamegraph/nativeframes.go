package flamegraph

import (
	"maps"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// maxHeld limits how many keys of one thread nativeWeights can hold back. The weights of further keys are not held
// back.
const maxHeld = 4

// nativeWeights gives weights to the C functions that a Ruby method calls, as children of the Ruby stack's innermost
// frame. The total of the Ruby frame does not change. C functions get weights only if the thread's counters show that
// it stayed in them. The counters are read up to 250 ms after the memory, or later if ddtop lowers its rates. Until
// then the weights are held back.
type nativeWeights struct {
	stays gvl.NativeStays
	held  map[sampler.ThreadID][]charge
}

// put passes to the Sinks the weights of the period from fromNS to toNS. If a later reading of the thread's counters
// may still prove that the thread stayed in its C functions, put holds the weights back.
func (c *Collector) put(fromNS, toNS int64, k Key, w Weights) {
	x := &c.native
	stay := x.stays.Of(k.Thread)
	// Samples of an idle process are a second apart, so a stay in C functions can begin within this period. Divide the
	// weights at the beginning of the stay.
	if stay != nil && fromNS < stay.FromNS && stay.FromNS < toNS {
		before := w.timesOf(stay.FromNS-fromNS, toNS-fromNS)
		c.put(fromNS, stay.FromNS, k, before)
		c.put(stay.FromNS, toNS, k, w.minus(before))
		return
	}
	if stay == nil || stay.Stack != k.Stack || !k.State.InNative() || fromNS < stay.FromNS || c.charges.late(k.Endpoint) {
		c.release(k.Thread, 0)
		c.emit(toNS, k, w)
		return
	}
	list := x.held[k.Thread]
	switch n := len(list); {
	case toNS <= stay.ToNS:
		c.release(k.Thread, stay.Native)
		k.Stack = stay.Native
		c.emit(toNS, k, w)
	case n > 0 && list[n-1].key == k:
		list[n-1].w, list[n-1].atNS = list[n-1].w.Plus(w), max(list[n-1].atNS, toNS)
	case n >= maxHeld:
		c.release(k.Thread, 0)
		c.emit(toNS, k, w)
	default:
		if x.held == nil {
			x.held = make(map[sampler.ThreadID][]charge)
		}
		x.held[k.Thread] = append(list, charge{toNS, k, w})
	}
}

// release passes to the Sinks the weights of a thread that were held back. stack is the thread's stack with its C
// functions, if counters have proven that the thread stayed in them. Otherwise stack is zero.
func (c *Collector) release(id sampler.ThreadID, stack sampler.StackID) {
	list := c.native.held[id]
	if len(list) == 0 {
		return
	}
	for _, g := range list {
		if stack != 0 {
			g.key.Stack = stack
		}
		c.emit(g.atNS, g.key, g.w)
	}
	delete(c.native.held, id)
}

// nativeTick passes on weights that were held back, once the counters of a sample show whether the thread stayed in its
// C functions.
func (c *Collector) nativeTick(t *gvl.Tick) {
	x := &c.native
	x.stays.Feed(t, func(id sampler.ThreadID, _ *gvl.NativeStay) { c.release(id, 0) })
	if len(x.held) == 0 {
		return
	}
	for i := range t.Threads {
		id := t.Threads[i].ID
		stay, list := x.stays.Of(id), x.held[id]
		if stay != nil && len(list) > 0 && list[len(list)-1].atNS <= stay.ToNS {
			c.release(id, stay.Native)
		}
	}
}

// releaseAll passes on all weights that were held back, without C functions.
func (c *Collector) releaseAll() {
	for _, id := range slices.Sorted(maps.Keys(c.native.held)) {
		c.release(id, 0)
	}
}

// late reports whether the Collector will soon forget a request. Only the last maxServed requests can still change
// their names, and late is true for the older half of them. The weights of such a request are not held back.
func (x *servedCharges) late(id EndpointID) bool { return id != 0 && x.last-id >= maxServed/2 }
