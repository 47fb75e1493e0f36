package sampler

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// churn imitates a program that redefines methods and starts and ends threads all the time. It also imitates the part
// of ddtop that reads this program. Like sampler/ruby, this part caches IDs until the generation changes.
type churn struct {
	d       *Dictionary
	rnd     *rand.Rand
	s       Sample
	seen    Generation
	cache   map[string]StackID
	truth   map[StackID]string // the meaning of each ID when it was given
	next    int
	nextID  ThreadID
	started bool
}

func newChurn(seed uint64) *churn {
	return &churn{d: NewDictionary(), rnd: rand.New(rand.NewPCG(seed, 5)), cache: map[string]StackID{}, truth: map[StackID]string{}}
}

// stack returns the ID of a stack with two frames that are always the same, and a method of the given name. If the
// imitated reader has cached the ID, stack returns the cached ID.
func (c *churn) stack(method string) StackID {
	if g := c.d.Generation(); g != c.seen {
		c.seen = g
		clear(c.cache)
	}
	id, ok := c.cache[method]
	if !ok {
		id = c.d.InternStackOf([]FrameID{
			c.d.InternFrame(Frame{Label: method, Path: "(eval)", Line: 1}),
			c.d.InternFrame(Frame{Label: "App#call", Path: "app.rb", Line: 7}), c.d.InternFrame(Frame{Label: "<main>", Path: "app.rb", Line: 9})})
		c.cache[method] = id
		c.truth[id] = method
	}
	return id
}

// sample returns the sample of the next tick, 500 ms after the last one. Thread 1 always has the same stack, and thread
// 2 alternates between two stacks. The other threads run new methods. At each tick one of these threads ends and
// another begins.
func (c *churn) sample() *Sample {
	c.s.TimeNS += 500e6
	if !c.started {
		c.started = true
		c.s.Threads = []Thread{{ID: 1, Stack: c.stack("park")}, {ID: 2}}
		c.nextID = 3
	}
	c.s.Threads[1].Stack = c.stack([]string{"ping", "pong"}[c.rnd.IntN(2)])
	if c.rnd.IntN(120) == 0 {
		c.s.Threads[1].Stack = c.stack("rare")
	}
	if n := len(c.s.Threads); n > 6 {
		gone := c.s.Threads[2]
		info, _ := c.d.Thread(gone.ID)
		info.GoneNS = c.s.TimeNS
		c.d.SetThread(info)
		c.s.Threads = append(c.s.Threads[:2], c.s.Threads[3:]...)
	}
	c.s.Threads = append(c.s.Threads, Thread{ID: c.nextID})
	c.d.SetThread(ThreadInfo{ID: c.nextID, Name: fmt.Sprint("thread ", c.nextID), HasName: true})
	c.nextID++
	for i := 2; i < len(c.s.Threads); i++ {
		c.next++
		c.s.Threads[i].Stack = c.stack(fmt.Sprint("method_", c.next))
		c.s.Threads[i].Resumers = []StackID{c.stack(fmt.Sprint("fiber_", c.next))}
	}
	return &c.s
}

// means returns the frames that a stack's ID refers to at present, as text.
func (c *churn) means(id StackID) string {
	frames := c.d.Frames(id, nil)
	if len(frames) != 3 || c.d.Depth(id) != 3 {
		return fmt.Sprint(len(frames), " frames")
	}
	if c.d.Frame(frames[1]).Label != "App#call" || c.d.Frame(frames[2]).Label != "<main>" {
		return "under other callers"
	}
	return c.d.Frame(frames[0]).Label
}

// TestKeeper: all IDs in the samples of the history must keep their meaning. Entries that the history does not need
// must be removed soon. No ID may be given to two entries.
func TestKeeper(t *testing.T) {
	const keepNS, hour = 60e9, 7200
	// Each tick makes 21 entries: one thread, and two frames and two stacks for each of five threads (a method and a
	// fiber). An entry is kept while the history needs it, and then for at most four generations.
	const limit = (keepNS + 4*keeperTurnNS) / 500e6 * 21
	c := newChurn(1)
	k := NewKeeper(c.d, keepNS)
	type kept struct {
		atNS    int64
		ids     []StackID
		threads []ThreadID
	}
	var history []kept
	var most [3]int // the most frames, stacks and threads that were held, in each third of the hour
	given := map[StackID]bool{}
	for tick := range hour {
		s := c.sample()
		h := kept{atNS: s.TimeNS}
		for i := range s.Threads {
			h.ids = append(append(h.ids, s.Threads[i].Stack), s.Threads[i].Resumers...)
			h.threads = append(h.threads, s.Threads[i].ID)
		}
		history = append(history, h)
		for history[0].atNS < s.TimeNS-keepNS {
			history = history[1:]
		}
		k.Feed(s, false)
		frames, stacks := c.d.Held()
		_, _, _, threads, overflow := c.d.Sizes()
		most[tick*3/hour] = max(most[tick*3/hour], frames+stacks+threads)
		if overflow != 0 {
			t.Fatalf("%d entries refused", overflow)
		}
		if tick%100 != 0 {
			continue
		}
		for _, h := range history {
			for _, id := range h.ids {
				if got := c.means(id); got != c.truth[id] {
					t.Fatalf("at %d s, stack %d of %d s means %q, it was %q", s.TimeNS/1e9, id, h.atNS/1e9, got, c.truth[id])
				}
			}
			for _, id := range h.threads {
				if info, ok := c.d.Thread(id); id > 2 && (!ok || info.Name != fmt.Sprint("thread ", id)) {
					t.Fatalf("at %d s, thread %d of %d s is %+v", s.TimeNS/1e9, id, h.atNS/1e9, info)
				}
			}
		}
	}
	if most[2] > most[0]*11/10 || most[2] > limit+50 {
		t.Errorf("%v entries at most in each third of an hour", most)
	}
	frames, stacks, _, _, _ := c.d.Sizes()
	if frames < 10*most[2] || stacks < 10*most[2] {
		t.Errorf("%d frames and %d stacks in all, of which %v were held at once: the test evicts too little", frames, stacks, most)
	}
	for id := range c.truth {
		if given[id] {
			t.Errorf("stack %d was given twice", id)
		}
		given[id] = true
	}
}

// TestKeeperHeld: while the parameter hold of Feed is set, no entry is evicted. When hold is false again, all entries
// that the history does not need are evicted.
func TestKeeperHeld(t *testing.T) {
	c := newChurn(2)
	k := NewKeeper(c.d, 10e9)
	first := c.sample().Threads[2].Stack
	name := c.truth[first]
	for range 600 {
		k.Feed(c.sample(), true)
	}
	if got := c.means(first); got != name {
		t.Errorf("held, and it means %q", got)
	}
	before, _ := c.d.Held()
	for range 240 {
		k.Feed(c.sample(), false)
	}
	if after, _ := c.d.Held(); after >= before/2 || c.means(first) == name {
		t.Errorf("%d frames held, %d when it was let go; the first is %q", after, before, c.means(first))
	}
}

// TestEvictedIDsMeanNothing: after an entry is evicted, its ID leads to nothing: not to another entry, and not to a
// part of the old one.
func TestEvictedIDsMeanNothing(t *testing.T) {
	c := newChurn(3)
	k := NewKeeper(c.d, 1e9)
	old := c.sample().Threads[2].Stack
	frame := c.d.Frames(old, nil)[0]
	for range 600 {
		k.Feed(c.sample(), false)
	}
	if f := c.d.Frame(frame); f != (Frame{}) {
		t.Errorf("the frame is %+v", f)
	}
	if caller, f := c.d.Stack(old); caller != 0 || f != 0 || c.d.Depth(old) != 0 || len(c.d.Frames(old, nil)) != 0 {
		t.Errorf("the stack is %d under %d", f, caller)
	}
	if id := c.d.InternStack(old, frame); id != 0 {
		t.Errorf("a stack called by what is gone has ID %d", id)
	}
	if again := c.d.InternFrame(Frame{Label: c.truth[old], Path: "(eval)", Line: 1}); again == frame || again == 0 {
		t.Errorf("the frame comes back as %d, it was %d", again, frame)
	}
}

// TestInternAllocatesNothing: if a value is already in the Dictionary, interning it again allocates no memory.
func TestInternAllocatesNothing(t *testing.T) {
	d := NewDictionary()
	f := d.InternFrame(Frame{Label: "a"})
	s := d.InternStack(0, f)
	if n := testing.AllocsPerRun(100, func() { d.InternFrame(Frame{Label: "a"}); d.InternStack(0, f); _ = d.Frame(f); d.Stack(s) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkEvict(b *testing.B) {
	c := newChurn(4)
	for range 4000 {
		c.sample()
	}
	frames, stacks := c.d.Held()
	for b.Loop() {
		c.d.evict(1, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(frames+stacks), "ns/entry")
}

// TestKeeperPeers: a program connects to new peers all the time, and keeps one connection. The number of stored peers
// must not grow with time. The peers in the history keep their meaning. The ID of an evicted peer leads to nothing.
func TestKeeperPeers(t *testing.T) {
	const keepNS, hour = 60e9, 7200
	d := NewDictionary()
	k := NewKeeper(d, keepNS)
	steady := d.InternPeer(Peer{Kind: PeerTCP, Remote: "10.0.0.5:5432"})
	type kept struct {
		atNS int64
		id   PeerID
		name string
	}
	var all []kept
	most := 0
	for tick := range hour {
		name := fmt.Sprint("10.0.0.6:", tick)
		s := Sample{TimeNS: int64(tick+1) * 500e6, Threads: []Thread{
			// Thread 1 waits for the same peer during the whole test. The peer's ID must stay valid, although the
			// reader does not intern the peer again.
			{ID: 1, Kernel: Kernel{Peer: steady}},
			{ID: 2, Kernel: Kernel{Peer: d.InternPeer(Peer{Kind: PeerTCP, Remote: name})}},
		}}
		all = append(all, kept{s.TimeNS, s.Threads[1].Kernel.Peer, name})
		k.Feed(&s, false)
		most = max(most, d.HeldPeers())
		if tick%100 != 0 {
			continue
		}
		for _, h := range all {
			got := d.Peer(h.id).Remote
			if h.atNS >= s.TimeNS-keepNS && got != h.name || got != "" && got != h.name {
				t.Fatalf("at %d s, peer %d of %d s is %q, it was %q", s.TimeNS/1e9, h.id, h.atNS/1e9, got, h.name)
			}
		}
		if d.Peer(steady).Remote != "10.0.0.5:5432" {
			t.Fatalf("at %d s the steady peer is gone", s.TimeNS/1e9)
		}
	}
	// The Dictionary may store the peers in the history, and after that the peers of at most four generations.
	if limit := int((keepNS+4*keeperTurnNS)/500e6) + 2; most > limit {
		t.Errorf("%d peers held at once, %d at most", most, limit)
	}
	if d.Peer(all[0].id) != (Peer{}) || d.HoldsPeer(all[0].id) {
		t.Errorf("the first peer still is %+v", d.Peer(all[0].id))
	}
}

// TestKeeperWorks: a server has new requests and statements all the time, and one request that never ends. The number
// of stored requests must not grow with time. The requests in the history keep their meaning. The ID of an evicted
// request leads to nothing.
func TestKeeperWorks(t *testing.T) {
	const keepNS, hour = 60e9, 7200
	d := NewDictionary()
	k := NewKeeper(d, keepNS)
	request := func(number int) Work {
		return Work{Number: WorkNumber(number), Kind: WorkRequest, Endpoint: fmt.Sprint("GET r#a", number), SinceNS: int64(number)}
	}
	steady := Serving{Work: d.InternWork(request(hour + 1)), Statement: d.InternText("LISTEN orders")}
	type kept struct {
		atNS int64
		Serving
		number int
	}
	var all []kept
	most := 0
	for tick := range hour {
		of := Serving{Work: d.InternWork(request(tick + 1)), Statement: d.InternText(fmt.Sprint("SELECT a", tick)),
			Exception: d.InternText(fmt.Sprint("E", tick))}
		s := Sample{TimeNS: int64(tick+1) * 500e6, Threads: []Thread{
			{ID: 1, Serving: steady}, // the reader does not intern this request again
			{ID: 2, Serving: of},
		}}
		all = append(all, kept{s.TimeNS, of, tick + 1})
		k.Feed(&s, false)
		most = max(most, d.works.Len())
		if tick%100 != 0 {
			continue
		}
		for _, h := range all {
			w, asked, handled := d.Work(h.Work), d.Statement(h.Statement), d.Exception(h.Exception)
			if gone := h.atNS < s.TimeNS-keepNS && w == (Work{}) && asked == "" && handled == ""; gone {
				continue
			}
			if w != request(h.number) || asked != fmt.Sprint("SELECT a", h.number-1) || handled != fmt.Sprint("E", h.number-1) {
				t.Fatalf("at %d s, request %d of %d s is %+v, asks %q, handles %q", s.TimeNS/1e9, h.number, h.atNS/1e9, w, asked, handled)
			}
		}
		if d.Work(steady.Work) != request(hour+1) || d.Statement(steady.Statement) != "LISTEN orders" {
			t.Fatalf("at %d s the steady request is gone", s.TimeNS/1e9)
		}
	}
	// The Dictionary may store the requests in the history, and after that the requests of at most four generations.
	if limit := int((keepNS+4*keeperTurnNS)/500e6) + 2; most > limit {
		t.Errorf("%d requests held at once, %d at most", most, limit)
	}
	if d.Work(all[0].Work) != (Work{}) || d.Statement(all[0].Statement) != "" {
		t.Errorf("the first request still is %+v", d.Work(all[0].Work))
	}
}
