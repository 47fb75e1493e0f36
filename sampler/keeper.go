package sampler

import "github.com/ddtop/ddtop/sampler/intern"

// Generation numbers periods of time, from 1 on. A Dictionary notes in which period an entry was last used. A Keeper
// begins a new period every half minute. The Dictionary itself begins one after many new requests.
type Generation = intern.Generation

// Generation returns the current generation. Callers that cache IDs of frames, stacks, peers, requests or texts must
// drop them when it changes. Otherwise they may pass on an ID whose entry was evicted. Requests and texts can be
// evicted one generation later, all other entries some generations later.
func (d *Dictionary) Generation() Generation { return Generation(d.generation.Load()) }

// Held returns how many frames and stacks there are that have not been evicted.
func (d *Dictionary) Held() (frames, stacks int) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.frames.Len(), d.stacks.Len()
}

// HeldPeers returns how many peers there are that have not been evicted.
func (d *Dictionary) HeldPeers() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.peers.Len()
}

// HoldsPeer reports whether an ID's peer has not been evicted.
func (d *Dictionary) HoldsPeer(id PeerID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.peers.At(id) != nil
}

// useSample notes that all stacks, peers, requests and texts of a sample are in use.
func (d *Dictionary) useSample(s *Sample) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Generation()
	serving := func(s *Serving) {
		d.works.Use(s.Work, now)
		d.texts.Use(s.Statement, now)
		d.texts.Use(s.Exception, now)
	}
	for i := range s.Threads {
		t := &s.Threads[i]
		d.stacks.Use(t.Stack, now)
		d.stacks.Use(t.Native, now)
		d.peers.Use(t.Kernel.Peer, now)
		serving(&t.Serving)
		for _, r := range t.Resumers {
			d.stacks.Use(r, now)
		}
	}
	for i := range s.Runs {
		d.stacks.Use(s.Runs[i].Stack, now)
	}
	if s.Fibers != nil {
		for i := range s.Fibers.List {
			d.stacks.Use(s.Fibers.List[i].Stack, now)
			serving(&s.Fibers.List[i].Serving)
		}
	}
}

// evict removes the stacks, peers, requests and texts whose last use was earlier than the generation in the parameter
// before. It also removes the frames that only these stacks had, and the threads that ended before goneNS.
func (d *Dictionary) evict(before Generation, goneNS int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Evict visits the newest stacks first. So it visits a caller after its callees, which marked it as used.
	freed := d.stacks.Evict(before, func(n *stackNode, used Generation) {
		d.stacks.Use(n.parent, used)
		d.frames.Use(n.frame, used)
	})
	freed += d.frames.Evict(before, nil) + d.peers.Evict(before, nil) + d.evictTold(before)
	for id, t := range d.threads {
		if t.GoneNS != 0 && t.GoneNS < goneNS {
			freed += t.cost()
			delete(d.threads, id)
			d.leaveTwins(t.Name)
		}
	}
	d.takes(-freed)
}

const (
	// keeperTurnNS is the length of a generation, in ns.
	keeperTurnNS = 30e9
	// keeperSpare is the number of generations that are kept in addition to those that the history needs. One is for
	// samples whose IDs were interned just before their generation began (a recording's block). One is for samples
	// that are still shown while they leave the history.
	keeperSpare = 2
)

// Keeper removes the entries of a Dictionary that no recent sample refers to. So ddtop's memory does not grow while it
// watches a program that redefines methods, starts and ends threads, and connects to new peers.
//
// This is safe because a sample refers only to entries that were interned in its generation or just before. The
// exception is a stack that a thread has kept for longer. All callers that intern must therefore drop their IDs at
// each change of Generation.
type Keeper struct {
	dict   *Dictionary
	keepNS int64
	// turns has the generations that may still be needed, and when they began, oldest first.
	turns []keeperTurn
}

type keeperTurn struct {
	generation Generation
	atNS       int64
}

// NewKeeper returns a Keeper that keeps what samples of the last keepNS refer to, in ns.
func NewKeeper(d *Dictionary, keepNS int64) *Keeper {
	return &Keeper{dict: d, keepNS: keepNS}
}

// Call Feed with each sample before the IDs of the next sample are interned, in the goroutine that interns. Every half
// minute Feed begins a new generation. Then it evicts what is not needed, unless hold is set. That takes about 50 ns
// per entry of the Dictionary.
func (k *Keeper) Feed(s *Sample, hold bool) {
	if n := len(k.turns); n > 0 && s.TimeNS-k.turns[n-1].atNS < keeperTurnNS && s.TimeNS >= k.turns[n-1].atNS {
		return
	}
	d := k.dict
	now := d.Generation()
	if len(k.turns) > 0 {
		now++
		d.generation.Store(uint32(now))
	}
	k.turns = append(k.turns, keeperTurn{now, s.TimeNS})
	d.useSample(s)
	if hold {
		return
	}
	// The oldest sample that is kept is keepNS older than s. It belongs to the last generation that began before it.
	oldest := 0
	for i, t := range k.turns {
		if t.atNS <= s.TimeNS-k.keepNS {
			oldest = i
		}
	}
	if oldest = max(oldest-keeperSpare, 0); oldest == 0 {
		return
	}
	first := k.turns[oldest]
	k.turns = append(k.turns[:0], k.turns[oldest:]...)
	d.evict(first.generation, first.atNS)
}
