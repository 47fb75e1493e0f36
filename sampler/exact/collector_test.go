package exact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// collected is a Machine whose changes go to a Collector. The Collector reports only changes that happened after time
// 5.
type collected struct {
	t *testing.T
	m *Machine
	c *Collector
}

func newCollected(t *testing.T) *collected {
	c := NewCollector(5)
	return &collected{t, NewMachine(c.Changed), c}
}

func (c *collected) feed(records ...Record) {
	for i := range records {
		c.m.Feed(&records[i])
	}
}

// fill fills a sample with the given time (at), and returns its changes as text. Before that, it tells the Machine that
// all changes up to this time are in samples (Passed).
func (c *collected) fill(at int64, lost uint64, list *List) string {
	c.m.Passed(at)
	s := sampler.Sample{TimeNS: at, Reads: sampler.Reads{Lost: lost}}
	c.c.Fill(&s, list)
	if !s.Changes.Known() {
		return "unknown"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d-%d", s.Changes.FromNS, s.Changes.ToNS)
	if s.Changes.Fresh {
		b.WriteString(" fresh")
	}
	for _, x := range s.Changes.List {
		fmt.Fprintf(&b, ", %d: %d (%d) %v", x.AtNS, x.Thread, x.TID, x.State)
		if x.NoCPUNS != 0 {
			fmt.Fprintf(&b, " no CPU %d", x.NoCPUNS)
		}
		if x.Doubtful {
			b.WriteString(" doubtful")
		}
	}
	return b.String()
}

func (c *collected) want(got, want string) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("%s\nwant %s", got, want)
	}
}

// at returns a List of threads.
func at(threads ...[3]int) *List {
	l := NewList(len(threads))
	for _, t := range threads {
		l.Add(uint64(t[0]), sampler.ThreadID(t[1]), int32(t[2]))
	}
	return l
}

func exited(at int64, tid int32) Record { return Record{NS: at, TID: tid, Kind: Exited} }

func began(at int64, tid int32, thread, owner uint64) Record {
	return Record{NS: at, TID: tid, Kind: Began, Thread: thread, Owner: owner, Linked: owner == thread}
}

var both = at([3]int{threadA, 11, 1}, [3]int{threadB, 12, 2})

// TestCollector: a thread waits in the queue and then gets the GVL. During this time, each sample has the changes since
// the previous sample.
func TestCollector(t *testing.T) {
	c := newCollected(t)
	c.feed(began(5, 1, threadA, threadA), began(5, 2, threadB, threadA))
	c.want(c.fill(100, 0, both), "5-100 fresh, 5: 11 (1) held, 5: 12 (2) released")
	c.want(c.fill(150, 0, both), "100-150")
	c.feed(queue(200, 2, threadB, threadA), release(300, 1, threadA, threadB), Record{NS: 305, TID: 1, Kind: Unlocked, Thread: threadA, Owner: threadB})
	c.want(c.fill(304, 0, both), "150-304, 200: 12 (2) queued, 300: 11 (1) released")
	last := run(400, 2, threadB)
	last.DelayNS = 30
	c.feed(last)
	c.want(c.fill(400, 0, both), "304-400, 305: 12 (2) chosen, 400: 12 (2) held no CPU 30")
	// The times of these records are before the last sample, so they come too late. Their changes get a time just after
	// that sample.
	c.feed(release(390, 2, threadB, 0), exited(395, 2))
	c.want(c.fill(500, 0, both), "400-500, 401: 12 (2) released, 401: 12 (2) gone")
}

// TestCollectorFresh: if samples or changes were lost, the changes of the next sample begin with the states of all
// threads.
func TestCollectorFresh(t *testing.T) {
	c := newCollected(t)
	c.feed(began(5, 1, threadA, threadA), began(5, 2, threadB, threadA))
	c.want(c.fill(100, 0, nil), "unknown")
	c.want(c.fill(110, 0, both), "100-110 fresh, 100: 11 (1) held, 100: 12 (2) released")
	c.feed(queue(120, 2, threadB, threadA))
	c.want(c.fill(130, 3, both), "110-130 fresh, 110: 11 (1) held, 110: 12 (2) released, 120: 12 (2) queued")
	c.want(c.fill(130, 3, both), "unknown")
	c.want(c.fill(140, 3, both), "130-140 fresh, 130: 11 (1) held, 130: 12 (2) queued")
	c.m.Lost(145)
	// The record says that the thread had no CPU for 25 ns. But the thread's state is known only for the last 20 ns. So
	// the change says 20 ns.
	last := release(150, 1, threadA, 0)
	last.DelayNS = 25
	c.feed(last)
	c.want(c.fill(160, 3, both), "140-160, 150: 11 (1) released no CPU 20 doubtful")
}

// TestCollectorBounds: if there are too many changes for a sample, or for the queue, the Collector drops them. Later
// samples have the states of the threads again.
func TestCollectorBounds(t *testing.T) {
	for _, n := range []int{sampler.MaxChanges/2 + 1, maxQueued/2 + 1} {
		c := newCollected(t)
		c.feed(began(5, 1, threadA, threadA))
		c.want(c.fill(6, 0, both), "5-6 fresh, 5: 11 (1) held")
		now := int64(10)
		for range n {
			c.feed(release(now, 1, threadA, 0), run(now+1, 1, threadA))
			now += 2
		}
		if got := c.fill(now, 0, both); n == sampler.MaxChanges/2+1 {
			c.want(got, "unknown")
		} else {
			// The queue became full just before the last two changes, so all earlier changes were dropped.
			c.want(got, fmt.Sprintf("%d-%d fresh, %d: 11 (1) held, %d: 11 (1) released, %d: 11 (1) held", now-3, now, now-3, now-2, now-1))
		}
		c.feed(release(now+5, 1, threadA, 0))
		if got, want := c.fill(now+10, 0, both), fmt.Sprintf("%d: 11 (1) released", now+5); !strings.HasSuffix(got, want) {
			t.Errorf("%s, want …%s", got, want)
		}
		if n := len(c.c.queue) + len(c.c.lives); n != 1 || cap(c.c.out) > 2*sampler.MaxChanges {
			t.Errorf("%d are left, room for %d", n, cap(c.c.out))
		}
	}
}

// TestCollectorThreads: threads begin and end, and new threads get the addresses of ended ones. If no sample lists a
// thread, its changes have ThreadID 0.
func TestCollectorThreads(t *testing.T) {
	c := newCollected(t)
	c.feed(began(5, 1, threadA, 0))
	c.want(c.fill(10, 0, both), "5-10 fresh, 5: 11 (1) released")
	// Thread 1 ends. Then two other threads get its address, one after the other. No sample lists the first one, and
	// the next sample lists the second one.
	c.feed(exited(20, 1), run(30, 5, threadA), exited(40, 5), run(50, 6, threadA))
	c.want(c.fill(60, 0, at([3]int{threadA, 13, 6})), "10-60, 20: 11 (1) gone, 30: 0 (5) held, 40: 0 (5) gone, 50: 13 (6) held")
	// A sample lists a thread that has no native thread yet. The thread ends before the next sample. In the records,
	// two threads have its address, one after the other. The listed thread is the first one.
	c.feed(exited(61, 6))
	starting := at([3]int{threadA, 14, 0})
	c.want(c.fill(62, 0, starting), "60-62, 61: 13 (6) gone")
	c.feed(run(63, 7, threadA), exited(64, 7), run(65, 8, threadA), exited(66, 8))
	c.want(c.fill(70, 0, at()), "62-70, 63: 14 (7) held, 64: 14 (7) gone, 65: 0 (8) held, 66: 0 (8) gone")
	// This thread has a change before any sample lists it. The first sample that lists the thread reports its current
	// state under its new ThreadID.
	c.feed(run(75, 9, threadB))
	c.want(c.fill(80, 0, at()), "70-80, 75: 0 (9) held")
	c.want(c.fill(90, 0, at([3]int{threadB, 15, 9})), "80-90, 90: 15 (9) held doubtful")
	c.want(c.fill(100, 0, at([3]int{threadB, 16, 9})), "90-100, 100: 15 (9) gone, 100: 16 (9) held doubtful")
	if c.c.unnamed != 0 || len(c.c.lives) != 1 {
		t.Errorf("%d unnamed of %d", c.c.unnamed, len(c.c.lives))
	}
}
