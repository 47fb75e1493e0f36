package sampler

import "github.com/ddtop/ddtop/sampler/intern"

// Generation is the number of a period of time. The periods are numbered from 1 on. A Dictionary notes in which period
// each entry was last used. A Keeper begins a new period every half minute. The Dictionary itself begins a new one
// after many new requests.
type Generation = intern.Generation

// Generation returns the current generation (period of time). Callers that cache IDs of frames, stacks, peers, requests
// or texts must drop them when the generation changes. Otherwise they may use an ID whose entry was evicted. Requests
// and texts can be evicted when the next generation begins. All other entries can be evicted only a few generations
// later.
func (d *Dictionary) Generation() Generation { return Generation(d.generation.Load()) }

// Held returns how many frames and stacks the Dictionary stores now, without the evicted ones.
func (d *Dictionary) Held() (frames, stacks int) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.frames.Len(), d.stacks.Len()
}

// HeldPeers returns how many peers the Dictionary stores now, without the evicted ones.
func (d *Dictionary) HeldPeers() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.peers.Len()
}

// HoldsPeer reports whether the Dictionary still stores the peer with this ID.
func (d *Dictionary) HoldsPeer(id PeerID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.peers.At(id) != nil
}

// useSample marks all stacks, peers, requests and texts of a sample as used in the current generation.
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

// evict removes the stacks, peers, requests and texts that were last used in a generation earlier than before. It also
// removes the frames that only these stacks had, and the threads that ended before goneNS.
func (d *Dictionary) evict(before Generation, goneNS int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Evict visits the newest stacks first. A stack's caller is always older than the stack. So when Evict visits the
	// caller, all kept stacks above it have already marked it as used.
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
	// keeperSpare is how many generations are kept in addition to those that the history needs. The first is for
	// samples whose IDs were interned just before their generation began. This happens because a recording is read in
	// blocks. The second is for samples that are still shown while the history drops them.
	keeperSpare = 2
)

// Keeper removes the entries of a Dictionary that no recent sample refers to. A program may redefine methods, start and
// end threads, and connect to new peers all the time. With a Keeper, ddtop's memory does not grow while it watches such
// a program.
//
// It is safe to remove old entries, because a sample refers only to entries that were interned in its generation or
// just before. But the code that reads threads may cache the ID of a stack that a thread has kept for longer. So all
// code that interns must drop its cached IDs at each change of Generation.
type Keeper struct {
	dict   *Dictionary
	keepNS int64
	// turns lists the generations whose entries may still be needed, with the time when each began. The oldest comes
	// first.
	turns []keeperTurn
}

type keeperTurn struct {
	generation Generation
	atNS       int64
}

// NewKeeper returns a Keeper that keeps the entries to which samples of the last keepNS refer. keepNS is in ns.
func NewKeeper(d *Dictionary, keepNS int64) *Keeper {
	return &Keeper{dict: d, keepNS: keepNS}
}

// Feed processes a sample. It must be called before the IDs of the next sample are interned, in the goroutine that
// interns. Every half minute Feed begins a new generation, and evicts the entries that are not needed. If hold is set,
// it evicts nothing. An eviction takes about 50 ns per entry of the Dictionary.
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
	// The history has samples that are up to keepNS older than s. The oldest generation in the history is the last one
	// that began before s.TimeNS - keepNS.
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
