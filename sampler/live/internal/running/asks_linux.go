package running

import (
	"errors"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/asks"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/native/clock"
)

// heapPath is what the kernel calls the memory that brk(2) manages (proc_pid_maps(5)).
const heapPath = "[heap]"

// followAsks makes the kernel copy the stacks of threads that ask the kernel for memory by a system call.
func (x *Run) followAsks() error {
	maps, err := x.of.Subject.Process.Maps()
	if err != nil {
		return err
	}
	target := x.of.Target
	for _, m := range maps {
		if m.Path == heapPath {
			target.Break = uint64(m.End)
		}
	}
	x.called.Store(new(clock.Counts))
	x.began, x.generation = pace.Monotonic(), x.of.Dictionary.Generation()
	if x.feed, err = clock.FollowAsks(target); err != nil {
		return err
	}
	// Read the mappings again now that the BPF program is loaded. It reports only code that is mapped from now on.
	if err := x.readMaps(func() error { return x.reader.Prepare(x.of.Subject) }); err != nil {
		return errors.Join(err, x.feed.Close())
	}
	return nil
}

// ask notes a system call that gave the process memory, moved it or took it away. If the call gave memory, ask returns
// the ledger's entry for this memory, which still needs the stack of the call. Otherwise ask returns nil.
func (x *Run) ask(a *clock.Ask) *asks.Owner {
	if !x.of.Asks {
		return nil
	}
	l := &x.ledger
	switch a.Kind {
	case clock.AskGone:
		l.Gone(a.Address, a.Bytes)
	case clock.AskMoved:
		l.Moved(a.From, a.FromBytes, a.Address, a.Bytes)
	case clock.AskMore:
		if a.FromBytes > 0 {
			l.Moved(a.From, a.FromBytes, a.Address, a.FromBytes)
		}
		return l.More(a.Address+a.FromBytes, a.Bytes-a.FromBytes)
	}
	return nil
}

// askedAlone returns the stack of a call that asked for memory, made by a thread that Ruby does not know. So the stack
// has no Ruby frames. owner is the ledger's entry for the memory.
func askedAlone(s *clock.Sample, native *sampler.NativeStack, owner *asks.Owner) stack {
	return stack{tid: s.TID, ns: s.NS, alone: true, native: *native, asked: owner}
}

// Account notes in the ledger which stack has asked for which memory. It can do this once the Ruby frames of the stack
// have names. The goroutine that samples (the clock) calls it after NameStacks.
func (x *Run) Account() {
	x.mu.Lock()
	defer x.mu.Unlock()
	dict := x.of.Dictionary
	if g := dict.Generation(); g != x.generation {
		x.generation = g
		x.ledger.Forget()
	}
	for i := range x.named {
		r := &x.named[i]
		if !r.alone && !r.name.In(x.generation) {
			x.lost.Add(1)
			continue
		}
		id := r.name.ID
		if with := dict.InternNative(id, &r.native); with != 0 {
			id = with
		}
		if id != 0 {
			x.ledger.Name(r.asked, id)
		}
	}
	clear(x.named)
	x.named = x.named[:0]
}

// Asked returns how much memory each stack of the process has asked the kernel for.
func (x *Run) Asked() *sampler.MemoryAsks {
	out, c := x.ledger.Sum(), x.called.Load()
	out.SinceNS, out.UntilNS = x.began, pace.Monotonic()
	out.Calls, out.Bytes = c.Calls, c.Asked
	out.Sure = out.Sure && c.Unseen == 0
	return &out
}
