package work

import (
	"cmp"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/gc"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// Place says where the threads of a server keep the Rack environments of their requests. A Rack environment is a Hash
// with a request's data. Place also says where such a Hash has its table.
type Place struct {
	// Frame is the distance from the end of the VM's stack down to the control frame whose variable holds the Rack
	// environment, in bytes. ISeq is the frame's code. Back is the distance from the frame's environment pointer (ep)
	// down to the variable, in bytes.
	Frame, ISeq, Back uint64
	// Table is the offset in an RHash of its st_table. If Inside is false, it is the offset of a pointer to the
	// st_table. Entries is the offset in an st_table of the pointer to its entries, and Bound the offset of
	// entries_bound. All are in bytes.
	Table, Entries, Bound int
	Inside                bool
	// Collections is the address of Ruby's counter of the garbage collections that have begun.
	Collections uint64
}

// Copied is a copy of a request's Rack environment. It was made while the request's thread stood still.
type Copied struct {
	// Context is the thread's execution context. Hash is the address of the request's Rack environment, and Table the
	// address of its table. Entries has the table's entries, which are at EntriesAt. Each has a hash, a key and a
	// value.
	Context, Hash, Table, EntriesAt uint64
	Entries                         []byte
	// Collector is the word with the collector's flags at the moment of the copy. Collections is the number of
	// collections that had begun by then.
	Collector, Collections uint64
	// FromNS and ByNS are two times, CLOCK_MONOTONIC in ns. The request began between them.
	FromNS, ByNS int64

	// task is the request. It is nil until it was found.
	task *task
}

// maxVotes limits how many votes the current place of request environments can have (notePlace). Because of the limit,
// another place replaces the current place after at most 33 votes for other places.
const maxVotes = 32

// notePlace votes for a place where threads may keep their Rack environments. This is the place of r's variable, in the
// j-th frame from the outside. The place with most votes is used. Votes are needed because code that fills an
// environment can have a variable with the same name.
func (f *Finder) notePlace(r *reading, fr *Frames, j int) {
	frame, at := fr.outer(j)
	if r.kind != sampler.WorkRequest || r.slot == at+code.FrameSelf {
		return
	}
	p := Place{Frame: uint64(fr.End - at), ISeq: view.U64(frame[code.FrameISeq:])}
	p.Back = view.U64(frame[code.FrameEP:]) - uint64(r.slot)
	switch {
	case p == f.place:
		f.votes = min(f.votes+1, maxVotes)
	case f.votes == 0:
		f.place, f.votes = p, 1
	default:
		f.votes--
	}
}

// Copies finds the requests to which copied Rack environments belong. Collector is nil if the collector cannot be read.
// Calls counts system calls.
type Copies struct {
	*Finder
	Collector *gc.Reader
	Calls     *uint64
}

// Place returns where threads keep the Rack environments of their requests. ok is false if no request was found yet, or
// if ddtop cannot use copied environments in this process.
func (f Copies) Place() (p Place, ok bool) {
	t, ok := f.objects.Tables()
	if p = f.place; p.Frame == 0 || !ok || f.Collector == nil {
		return Place{}, false
	}
	p.Table, p.Inside, p.Entries, p.Bound, p.Collections = t.Table, t.Inside, t.Entries, t.Bound, uint64(f.Collector.Collections())
	return p, true
}

// Take finds the request to which a copied environment belongs. It reads the environment from the target again, because
// the framework may have added to it since the copy was made. By now the environment could belong to a later request.
// So Take compares the objects that the server makes for each request. If the copy has the same objects, the
// environment still belongs to the same request.
//
// This is certain only if none of the copied objects was freed since. The objects were in use when the copy was made.
// So only a collection that began later, or that was marking or compacting just then, can have freed them. id is zero
// if there was such a collection, or if any check fails. early is true if the framework may still write the route into
// the environment.
func (f Copies) Take(c *Copied) (id sampler.WorkID, early bool) {
	if f.Collector == nil || !f.Collector.KeepsUsed(c.Collector) {
		return 0, false
	}
	f.calls = -f.objects.View.Calls
	defer func() { *f.Calls += uint64(f.calls + f.objects.View.Calls) }()
	r := reading{key: taskKey{ec: attach.Address(c.Context), hash: c.Hash}, copied: c.Hash}
	if !f.readCopied(&r, c, f.Collector.Collections()) || !c.isOf(&r) {
		return 0, false
	}
	now := f.tasks[r.key]
	if c.task != nil {
		f.tasks[r.key] = c.task
	} else {
		f.begin(now, &r, c)
	}
	t := f.taskOf(&r, c.ByNS, c.FromNS)
	if c.task != nil && now != c.task { // c.task has ended, and another task may have its key now
		if delete(f.tasks, r.key); now != nil {
			f.tasks[r.key] = now
		}
	}
	if t.work.SinceNS <= c.FromNS { // the sample was requested for an earlier request, and came late
		t.work.BeforeNS, t.work.SinceNS, t.generation = c.FromNS, c.ByNS, 0
		f.seen(t, t.seenNS)
	}
	c.task, f.routed = t, f.routed || !t.guessed
	return t.id, f.routed && t.guessed
}

// Unnamed returns the request to which a copied Rack environment belongs, without reading the target. It is for a
// request that Take could not read, or for which Take had no time. If the request is new, it has no name until a sample
// reads its environment.
func (f Copies) Unnamed(c *Copied) sampler.WorkID {
	t := c.task
	if t == nil {
		r := reading{key: taskKey{ec: attach.Address(c.Context), hash: c.Hash}, kind: sampler.WorkRequest}
		if t = f.tasks[r.key]; t == nil || t.seenNS < c.FromNS {
			f.begin(t, &r, c)
			t = f.newTask(&r, c.ByNS, c.FromNS)
			t.unread = c
		}
		c.task = t
	}
	f.seen(t, max(t.seenNS, c.ByNS))
	return t.id
}

// begin notes that a thread has begun the request of the copy c, and ends the thread's earlier tasks. It ends the task
// of the thread's last copy. The parameter now is the known task with the key of c, or nil. If now was last seen before
// c's request began, begin ends it, too.
func (f *Finder) begin(now *task, r *reading, c *Copied) {
	if now != nil && now.seenNS < c.FromNS {
		f.end(now)
	}
	if last, ok := f.copies[r.key.ec]; ok && last != r.key {
		delete(f.tasks, last)
	}
	if len(f.copies) >= maxTasks {
		clear(f.copies)
	}
	f.copies[r.key.ec] = r.key
}

// readCopied reads c's Rack environment from the target, as it is now, into r. It returns false if the environment
// changes while it is read, or if a collection has begun since the copy was made. collections is the address of Ruby's
// counter of collections.
func (f *Finder) readCopied(r *reading, c *Copied, collections attach.Address) bool {
	key := r.key
	for range readTries {
		f.tries++
		found := false
		err := f.objects.Read(func() error {
			*r = reading{key: key, copied: key.hash}
			f.failed, f.notes = nil, f.notes[:0]
			f.objects.Record(&f.notes)
			defer f.objects.Record(nil)
			f.objects.WantCopied(c.Hash, attach.Address(c.Table), attach.Address(c.EntriesAt), c.Entries, envNames[:])
			found = f.readEnv(nil, r)
			return f.failed
		})
		if err != nil || !heap.Recorded(f.notes) {
			continue
		}
		f.scratch.Set(f.notes)
		var count [8]byte
		same, calls, err := f.scratch.ConfirmKept(f.objects, f.mem, nil, []attach.Range{{Addr: collections, Buf: count[:]}})
		f.calls += calls
		if err == nil && same {
			return found && view.U64(count[:]) == c.Collections
		}
	}
	return false
}

// isOf reports whether a reading belongs to the copied request. All values in r that identify a request must be objects
// in the copy. At least one of them must be the object of the URI or of the path, because no two requests share such an
// object.
func (c *Copied) isOf(r *reading) bool {
	for _, v := range r.identity[:identityText] {
		if v != 0 && !c.has(v) {
			return false
		}
	}
	own := cmp.Or(r.proof.uri, r.proof.path)
	return own != 0 && c.has(own)
}

func (c *Copied) has(value uint64) bool {
	has := false
	heap.EachEntry(c.Entries, func(_, v uint64) { has = has || v == value })
	return has
}
