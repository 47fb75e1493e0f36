package switches

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// TestMovements: from the moves of threads and from readings of memory, Movements finds the right states of the
// threads. Times are in µs.
func TestMovements(t *testing.T) {
	const owner, other = one, two
	move := func(tid int32, at int64, k MoveKind) Move { return Move{at * us, tid, k} }
	words := func(tid int32, set func(*Words)) Words {
		w := Words{TID: tid, Thread: one, Region: true}
		if tid == tid2 {
			w.Thread = two
		}
		set(&w)
		return w
	}
	in := func(*Words) {}
	queues := func(w *Words) { w.Queued = true }
	runs := func(w *Words) { w.Linked, w.Region = true, false }
	glance := func(at int64, owner uint64, threads ...Words) Glance {
		return Glance{FromNS: (at - 1) * us, ToNS: (at + 1) * us, Owner: owner, Sure: true, Threads: threads}
	}
	for _, c := range []struct {
		name string
		what []any
		want string
	}{
		{"a sleep at which there was a look is as long as the thread was without a CPU", []any{
			glance(10, 0, words(tid1, in), words(tid2, in)),
			move(tid1, 1000, Got), glance(1500, owner, words(tid1, runs)),
			move(tid1, 2000, Slept), glance(2500, 0, words(tid1, in)), move(tid1, 9000, Got), glance(9500, owner, words(tid1, runs)),
		}, "released 10-1004, running 1004-1997, released 1997-9004, running 9004-"},
		{"so is a wait", []any{
			glance(10, other, words(tid1, in), words(tid2, runs)),
			move(tid1, 1000, Got), move(tid1, 1020, Slept), glance(2500, other, words(tid1, queues)), move(tid2, 6990, Slept),
			move(tid1, 7000, Got), glance(7500, owner, words(tid1, runs), words(tid2, in)),
		}, "released 10-1017, waiting 1017-7004, running 7004-"},
		{"and one that nobody looked at, of a thread that woke up while another one ran", []any{
			glance(10, other, words(tid1, in), words(tid2, runs)), move(tid2, 900, Got),
			move(tid1, 1000, Got), move(tid1, 1020, Slept), move(tid2, 6990, Slept), move(tid1, 7000, Got),
			glance(7500, owner, words(tid1, runs), words(tid2, in)),
		}, "released 10-1017, waiting 1017-7004, running 7004-"},
		{"a thread that has waited does not wait for itself in its next sleeps", []any{
			glance(10, other, words(tid1, in), words(tid2, runs)), move(tid2, 900, Got),
			move(tid1, 1000, Got), move(tid1, 1020, Slept), move(tid2, 6990, Slept), move(tid1, 7000, Got), move(tid1, 7020, Slept),
			move(tid1, 17000, Got), move(tid1, 17020, Slept), move(tid1, 27000, Got), glance(27500, owner, words(tid1, runs), words(tid2, in)),
		}, "released 10-1017, waiting 1017-7004, running 7004-7017, released 7017-27004, running 27004-"},
		{"a sleep without a look, of a thread that ran, is none", []any{
			glance(10, 0, words(tid1, in)), move(tid1, 1000, Got), move(tid1, 2000, Slept), move(tid1, 3000, Got),
			glance(3500, owner, words(tid1, runs)),
		}, "released 10-1004, running 1004-1997, released 1997-3004, running 3004-"},
		{"a thread that loses its CPU to another one holds on to the GVL", []any{
			glance(10, 0, words(tid1, in)), move(tid1, 1000, Got), move(tid1, 2000, Preempted), glance(2500, owner, words(tid1, runs)), move(tid1, 3000, Got),
			move(tid1, 4000, Slept), glance(4500, 0, words(tid1, in)),
		}, "released 10-1004, running 1004-3997, released 3997-"},
		{"a look at a thread that moves meanwhile says nothing", []any{
			glance(10, 0, words(tid1, in)), move(tid1, 1000, Got), glance(1000, owner, words(tid1, runs)), move(tid1, 1010, Slept),
			glance(2000, 0, words(tid1, in)),
		}, "released 10-"},
		{"a thread is put into the queue by another one between two looks", []any{
			glance(10, other, words(tid1, in), words(tid2, runs)), glance(1000, other, words(tid1, in)), glance(2000, other, words(tid1, queues)),
			move(tid1, 3000, Got), glance(3500, owner, words(tid1, runs), words(tid2, in)),
		}, "released 10-1500, waiting 1500-3004, running 3004-"},
		{"a thread that lets another one run for a while goes on then", []any{
			glance(10, owner, words(tid1, runs), words(tid2, in)), move(tid1, 100, Got), glance(500, owner, words(tid1, runs)),
			move(tid2, 1000, Got), move(tid2, 1020, Slept), move(tid1, 2000, Preempted), move(tid2, 2001, Got), move(tid2, 2100, Slept),
			move(tid1, 2101, Got), move(tid2, 3000, Got), glance(9000, owner, words(tid1, runs)),
		}, "running 10-2005, released 2005-2100, running 2100-"},
		{"a thread that loses its CPU without the GVL has it again no earlier than a CPU", []any{
			glance(10, owner, words(tid1, runs)), move(tid1, 20, Got), move(tid1, 1000, Preempted),
			glance(1010, 0, words(tid1, in)), glance(8000, 0, words(tid1, in)), move(tid1, 9000, Got),
			move(tid1, 9200, Slept), glance(9500, 0, words(tid1, in)),
		}, "running 10-517, released 517-9100, running 9100-9197, released 9197-"},
		{"a thread that loses its CPU on its way into a sleep does not wait in it", []any{
			glance(10, owner, words(tid1, runs), words(tid2, in)), move(tid1, 980, Got), move(tid1, 1000, Preempted),
			move(tid2, 1002, Got), glance(1010, other, words(tid1, in), words(tid2, runs)),
			move(tid1, 9000, Got), move(tid1, 9020, Slept), move(tid1, 12000, Got),
			glance(12500, owner, words(tid1, runs), words(tid2, in)),
		}, "running 10-997, released 997-12004, running 12004-"},
		{"a thread without a CPU that holds the GVL by a look holds it, whoever had it before", []any{
			glance(10, owner, words(tid1, runs), words(tid2, in)), move(tid1, 20, Got), move(tid1, 1000, Preempted),
			glance(1100, owner, words(tid1, runs)), move(tid2, 1200, Got), glance(2000, other, words(tid2, runs)),
			move(tid2, 3000, Preempted), glance(4000, owner, words(tid1, runs), words(tid2, in)),
		}, "running 10-1204, released 1204-4000, running 4000-"},
		{"a thread ends", []any{
			glance(10, 0, words(tid1, in)), move(tid1, 1000, Got), move(tid1, 2000, Ended), glance(2500, 0),
		}, "released 10-1004, running 1004-1975, released 1975-2000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &told{tid: tid1}
			rules, m := NewMachine(exact.NewMachine(func(c *exact.Change) {
				if c.Doing.Kind != sampler.DoingUnknown {
					t.Errorf("of a move nobody knows that the thread does %+v", c.Doing)
				}
				k.changed(c)
			})), NewMovements()
			now := int64(0)
			for _, x := range c.what {
				switch x := x.(type) {
				case Move:
					m.Moved(x)
				case Glance:
					now = x.ToNS
					if m.Look(&x, rules.Feed) {
						t.Error("moves were dropped")
					}
				}
			}
			rules.Advance(now)
			k.does("", now)
			if got := strings.Join(k.out, ", "); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestMovementsAny: after threads have moved, Any and Wanted return true, so that ddtop reads their memory (a glance).
// They return true even if Pass has already applied the moves. While threads do not move, they return false.
func TestMovementsAny(t *testing.T) {
	m, records := NewMovements(), 0
	count := func(*Record) { records++ }
	look := func(at int64) {
		m.Look(&Glance{FromNS: at, ToNS: at + 1, Sure: true, Threads: []Words{{TID: tid1, Thread: one, Region: true}}}, count)
	}
	m.Begin(tid1, false)
	look(100)
	if m.Any() || m.Wanted(tid1) || records != 1 {
		t.Errorf("of a thread that sleeps a look is wanted; %d records", records)
	}
	m.Moved(Move{200, tid1, Got})
	m.Moved(Move{300, tid1, Slept})
	m.Pass(1000, count)
	if !m.Any() || !m.Wanted(tid1) {
		t.Error("no look is wanted of a thread that has moved")
	}
	look(2000)
	if m.Any() || m.Wanted(tid1) || records != 2 {
		t.Errorf("after the look another one is wanted; %d records", records)
	}
	m.Moved(Move{3000, tid1, Got})
	m.Pass(4000, count)
	look(5000)
	if !m.Any() || !m.Wanted(tid1) {
		t.Error("no look is wanted of a thread that runs")
	}
}

// TestMovementsAreBounded: if there is no glance at memory for long, moves beyond maxMoves are dropped, and Look
// reports the loss. Threads beyond a limit are not followed.
func TestMovementsAreBounded(t *testing.T) {
	m := NewMovements()
	for i := range maxMoves + 10 {
		m.Moved(Move{int64(i), int32(i%2 + 1), MoveKind(i / 2 % 2)})
	}
	if len(m.moves) > maxMoves {
		t.Errorf("%d moves wait", len(m.moves))
	}
	none := func(r *Record) { t.Errorf("%+v of a thread of which memory said nothing", *r) }
	if !m.Look(&Glance{FromNS: maxMoves * 2, ToNS: maxMoves*2 + 1}, none) {
		t.Error("dropped moves are not told")
	}
	for i := range maxThreads + 10 {
		m.Begin(int32(i+1), false)
	}
	if len(m.threads) != maxThreads {
		t.Errorf("%d threads", len(m.threads))
	}
}

// FuzzMovements: for any moves and glances, the times of a thread's changes never go back.
func FuzzMovements(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 5, 6, 7, 250, 9, 10, 11, 12})
	f.Fuzz(func(t *testing.T, b []byte) {
		last := map[int32]int64{}
		rules, m := NewMachine(exact.NewMachine(func(c *exact.Change) {
			if c.AtNS < last[c.TID] {
				t.Errorf("%+v after %d", *c, last[c.TID])
			}
			last[c.TID] = c.AtNS
		})), NewMovements()
		now := int64(1000)
		for len(b) >= 2 {
			x, y := b[0], b[1]
			b = b[2:]
			now += int64(y) * 100
			tid := int32(x&3) + 1
			if x < 200 {
				m.Moved(Move{now - int64(x>>2&7)*50, tid, MoveKind(x >> 5 & 3)})
				continue
			}
			g := Glance{FromNS: now, ToNS: now + 50, Owner: uint64(y & 3), Sure: x&4 == 0, Before33: x&8 == 0}
			for i := range int32(4) {
				g.Threads = append(g.Threads, Words{TID: i + 1, Thread: uint64(i + 1), Queued: y&(1<<i) != 0, Linked: y&(16<<i) != 0})
			}
			m.Look(&g, rules.Feed)
			now += 50
			rules.Advance(now)
		}
	})
}
