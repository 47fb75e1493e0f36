package ruby

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// Places within the structs of a queueModel.
const (
	modelSelf  = 0
	modelNode  = 8
	modelSpan  = 24
	modelQueue = 0
	modelCount = 16
	modelHead  = attach.Address(0x1000)
)

// queueModel is a simulated memory with a scheduler's queue and its threads. It also has the true order of the threads.
// The model's methods change the memory and the true order in the same way as Ruby changes its queue.
type queueModel struct {
	head    [20]byte
	threads map[attach.Address]*[modelSpan]byte
	queue   []attach.Address // the threads in the queue, in order
}

func (m *queueModel) Read(addr attach.Address, buf []byte) error {
	if b, ok := m.threads[addr]; ok && len(buf) == modelSpan {
		copy(buf, b[:])
		return nil
	}
	return attach.ErrUnmapped
}

func (m *queueModel) ReadBatch(ranges []attach.Range) (int, error) {
	for i := range ranges {
		ranges[i].Failed = m.Read(ranges[i].Addr, ranges[i].Buf) != nil
	}
	return 1, nil
}

// link writes the queue into memory. A thread that is not in the queue points to itself.
func (m *queueModel) link() {
	put := binary.LittleEndian.PutUint64
	for addr, b := range m.threads {
		put(b[modelSelf:], uint64(addr)+1)
		put(b[modelNode:], uint64(addr)+modelNode)
		put(b[modelNode+8:], uint64(addr)+modelNode)
	}
	prev := uint64(modelHead)
	set := func(next uint64) {
		if prev == uint64(modelHead) {
			put(m.head[modelQueue:], next)
		} else {
			put(m.threads[attach.Address(prev-modelNode)][modelNode:], next)
		}
	}
	for _, addr := range m.queue {
		node := uint64(addr) + modelNode
		set(node)
		put(m.threads[addr][modelNode+8:], prev)
		prev = node
	}
	set(uint64(modelHead))
	put(m.head[modelQueue+8:], prev)
	binary.LittleEndian.PutUint32(m.head[modelCount:], uint32(len(m.queue)))
}

// outside returns the threads that are not in the queue.
func (m *queueModel) outside() (out []attach.Address) {
	for addr := range m.threads {
		if !slices.Contains(m.queue, addr) {
			out = append(out, addr)
		}
	}
	slices.Sort(out)
	return out
}

// step makes some changes to the queue, as they happen between two ticks. If oddly is true, some changes are in the
// middle or at the front, where Ruby's FIFO does not allow them.
func (m *queueModel) step(rnd *rand.Rand, oddly bool) {
	for range rnd.IntN(6) {
		out := m.outside()
		switch n := len(m.queue); {
		case oddly && n > 2 && rnd.IntN(8) == 0: // a thread leaves from the middle
			m.queue = slices.Delete(m.queue, n/2, n/2+1)
		case oddly && len(out) > 0 && rnd.IntN(8) == 0: // a thread is put in front
			m.queue = slices.Insert(m.queue, 0, out[rnd.IntN(len(out))])
		case n > 0 && rnd.IntN(2) == 0:
			m.queue = slices.Delete(m.queue, 0, 1)
		case len(out) > 0:
			m.queue = append(m.queue, out[rnd.IntN(len(out))])
		}
	}
	m.link()
}

func newQueueModel(era sampler.Era, counted bool) (*queueModel, *Reader, *ractor) {
	const threads = 24
	m := &queueModel{threads: make(map[attach.Address]*[modelSpan]byte)}
	o := &rubyvm.Offsets{VMRactorSet: -1, GVLOwner: modelQueue, GVLQueue: modelQueue, ThSelf: modelSelf, ThReadyNode: modelNode, ThUnblockFunc: modelSelf,
		ThSpan: modelSpan, GVLQueueCount: layout.Field{Offset: -1}}
	if counted {
		o.GVLQueueCount = layout.Field{Offset: modelCount, Size: 4}
	}
	r := newReader(&target{mem: m, o: o, era: era, vm: &VM{Table: &layout.Table{}}}, Options{})
	rc := &ractor{id: 1, base: modelHead, buf: make([]byte, len(m.head))}
	r.list.ractors = []*ractor{rc}
	for i := range threads {
		addr := attach.Address(0x10000 + 0x100*i)
		m.threads[addr] = new([modelSpan]byte)
		t := &thread{addr: addr, id: sampler.ThreadID(i + 1), ractor: rc, self: uint64(addr) + 1, buf: make([]byte, modelSpan), index: i, among: i, place: -1}
		r.list.threads[addr] = t
		r.list.order = append(r.list.order, t)
	}
	rc.threads = r.list.order
	m.link()
	return m, r, rc
}

// tick makes ddtop read the queue as in a tick. It reads all threads if whole is true. Otherwise it reads the threads
// that ddtop wants, and the threads for which the parameter also returns true.
func (m *queueModel) tick(r *Reader, rc *ractor, whole bool, also func(*thread) bool) error {
	r.list.sample++
	for {
		r.list.ticks++
		r.list.read = r.list.read[:0]
		copy(rc.buf, m.head[:])
		for _, t := range r.list.order {
			if whole || t.wanted == r.list.sample || t.place >= 0 && t.place < queueLead || also(t) {
				t.readIn = r.list.ticks
				r.list.read = append(r.list.read, t)
				if err := m.Read(t.addr, t.buf); err != nil {
					return err
				}
			}
		}
		if r.gvl.takeQueue(rc, !whole) {
			return nil
		}
	}
}

// TestFollowQueue: ddtop follows a queue through thousands of random changes. If threads only join at the end and leave
// at the front, ddtop finds the true queue in every tick. If they also leave from the middle or go in front, ddtop
// finds the true queue or marks it as torn. It can do this only on releases that count the queue's threads.
func TestFollowQueue(t *testing.T) {
	for _, oddly := range []bool{false, true} {
		for _, counted := range []bool{false, true} {
			if oddly && !counted {
				continue // ddtop notices that a thread has left from the middle only if it reads this thread
			}
			m, r, rc := newQueueModel(sampler.EraSched, counted)
			rnd := rand.New(rand.NewPCG(7, 11))
			torn, fetched, longest := 0, 0, 0
			for i := range 20000 {
				whole := !rc.queue.known
				if err := m.tick(r, rc, whole, func(*thread) bool { return rnd.IntN(12) == 0 }); err != nil {
					t.Fatal(err)
				}
				fetched += rc.queue.fetched
				longest = max(longest, len(m.queue))
				if !rc.queue.known {
					torn++
					if whole || !oddly {
						t.Fatalf("tick %d: a queue that stands still is torn (everybody read: %v)", i, whole)
					}
					for _, th := range r.list.order {
						if r.queued(th) != slices.Contains(m.queue, th.addr) {
							t.Fatalf("tick %d: torn, and %v is wrongly in the queue or not", i, th)
						}
					}
				} else if got := addresses(rc.queue.members); !slices.Equal(got, m.queue) {
					t.Fatalf("tick %d: the queue is %v and should be %v", i, got, m.queue)
				}
				for place, th := range rc.queue.members {
					if th.place != place {
						t.Fatalf("tick %d: %v stands in place %d and thinks it is %d", i, th, place, th.place)
					}
				}
				m.step(rnd, oddly)
			}
			if fetched == 0 || longest < 10 {
				t.Errorf("%d threads were met unread, the longest queue had %d: nothing was tried", fetched, longest)
			}
			if oddly && torn == 0 {
				t.Error("no queue was torn although threads left from the middle")
			}
		}
	}
}

func addresses(threads []*thread) (out []attach.Address) {
	for _, t := range threads {
		out = append(out, t.addr)
	}
	return out
}
