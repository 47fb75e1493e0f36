package timeline

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// erratic returns a Timeline of a process whose threads change their states irregularly. They stay in a state for 1 to
// 10 ms, and in one of 20 cases for up to 12 s. Thread 4 begins and ends several times, and the samples have a gap.
// was[id] has the times at which the state of thread id changed.
func erratic(seed uint64, columns int) (tl *Timeline, end int64, was map[sampler.ThreadID][]change) {
	return erraticEach(seed, columns, func(*Timeline, int64) {})
}

// erraticEach does the same as erratic, and calls the function after for each sample.
func erraticEach(seed uint64, columns int, after func(tl *Timeline, at int64)) (tl *Timeline, end int64, was map[sampler.ThreadID][]change) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	p := gvltest.ProcOf(sampler.EraSched)
	stream := stream.New(p)
	tl, was = New(stream, 0, columns), make(map[sampler.ThreadID][]change)
	states := []gvl.ThreadState{{Thread: 1}, {Thread: 2}, {Thread: 3}, {Thread: 4}}
	until := make([]int64, len(states))
	at := int64(gvltest.Base)
	for end := at + 40*gvltest.Sec; at < end; at += gvltest.MS {
		s := &sampler.Sample{TimeNS: at}
		if at == gvltest.Base+11*gvltest.Sec {
			at += 3 * gvltest.Sec
		}
		var now []gvl.ThreadState
		for i := range states {
			st := &states[i]
			if at >= until[i] {
				st.State = (st.State + 1 + gvl.State(rnd.IntN(int(gvl.NumStates)-1))) % gvl.NumStates
				until[i] = at + int64(1+rnd.IntN(10))*gvltest.MS
				if rnd.IntN(20) == 0 {
					until[i] = at + int64(rnd.IntN(12))*gvltest.Sec
				}
				was[st.Thread] = append(was[st.Thread], change{at, st.State})
			}
			if st.Thread == 4 && (at-gvltest.Base)/(5*gvltest.Sec)%2 == 1 {
				continue
			}
			st.Ractor = 1
			now = append(now, *st)
			s.Threads = append(s.Threads, sampler.Thread{ID: st.Thread, Ractor: 1})
		}
		stream.Feed(s, now)
		after(tl, at)
	}
	return tl, at - gvltest.MS, was
}

type change struct {
	atNS  int64
	state gvl.State
}

// TestTimelineSums: to save work, the timeline adds up whole chunks and columns at once. The results must equal the
// sums of single columns.
func TestTimelineSums(t *testing.T) {
	seeds := uint64(6)
	if rubytest.Short(t) {
		seeds = 2
	}
	for _, columns := range []int{600, 150} {
		for seed := range seeds {
			tl, end, _ := erratic(seed, columns)
			rnd := rand.New(rand.NewPCG(seed, 2))
			for range 200 {
				from := gvltest.Base - gvltest.Sec + rnd.Int64N(end-gvltest.Base)
				to := from + rnd.Int64N(end+gvltest.Sec-from)
				cols := 1 + rnd.IntN(200)
				ids := []sampler.ThreadID{1, 2, 3, 4, 77}[rnd.IntN(4):]
				got := tl.AppendRows(nil, ids, from, to, cols)
				for k := range cols {
					var want [gvl.NumStates]int64
					for _, id := range ids {
						if r := tl.rows[id]; r != nil {
							tl.spans(from, to, cols, k, func(col, num, den int64) { tl.addCell(&want, r, col, num, den) })
						}
					}
					if got[k].NS != want {
						t.Fatalf("seed %d: %v, %d ns from %d, column %d of %d:\n got %v\nwant %v", seed, ids, to-from, from-gvltest.Base, k, cols, got[k].NS, want)
					}
				}
				if got, want := tl.Totals(2, from, to), tl.AppendRow(nil, 2, from, to, 1)[0].NS; got != want {
					t.Fatalf("seed %d: totals %v, a row of one column %v", seed, got, want)
				}
			}
		}
	}
}

// TestTimelineKeepsWhatIsFinal: cells that a picture reuses from the picture before must equal cells that are computed
// again. This must be true for live and frozen windows of any length.
func TestTimelineKeepsWhatIsFinal(t *testing.T) {
	made, kept := 0, 0
	seeds := uint64(6)
	if rubytest.Short(t) {
		seeds = 2
	}
	for _, columns := range []int{600, 150} {
		for seed := range seeds {
			rnd := rand.New(rand.NewPCG(seed, 3))
			rows := [][]sampler.ThreadID{{1}, {4}, {1, 2, 3, 4}, {2, 77}}
			past := make([]RowCells, len(rows))
			from, to, cols, next := int64(0), int64(0), 0, int64(0)
			erraticEach(seed, columns, func(tl *Timeline, at int64) {
				if at < next {
					return
				}
				next = at + int64(rnd.IntN(400))*gvltest.MS
				if cols == 0 || rnd.IntN(20) == 0 {
					cols = 1 + rnd.IntN(150)
				}
				switch from, to = tl.Window(at, 20*gvltest.Sec, cols); rnd.IntN(10) {
				case 0:
					from, to = from-2*gvltest.Sec, to-2*gvltest.Sec
				case 1:
					from, to = from+12345, to+6789
				}
				for i, ids := range rows {
					before, final := past[i].fromNS, past[i].finalNS
					got, want := tl.UpdateRows(&past[i], ids, from, to, cols), tl.AppendRows(nil, ids, from, to, cols)
					for k := range max(len(got), len(want)) {
						if len(got) != len(want) || got[k] != want[k] {
							t.Fatalf("seed %d, %v, cell %d of %d:\n got %v\nwant %v", seed, ids, k, cols, got[k], want[k])
						}
					}
					if made += cols; before != 0 {
						kept += int(max(min(final-from, to-from), 0) * int64(cols) / (to - from))
					}
				}
			})
		}
	}
	// this is not more, because without stacks, a thread's last state is final only when the next one begins
	if kept < made/3 {
		t.Errorf("of %d cells only %d were final", made, kept)
	}
}

// TestTimelineSince: Since finds when a thread entered its state. The result is at most one column too early, and at
// most 2 ms too late.
func TestTimelineSince(t *testing.T) {
	looked := 0
	seeds := uint64(20)
	if rubytest.Short(t) {
		seeds = 8
	}
	for seed := range seeds {
		tl, end, was := erratic(seed, 600)
		hole := [2]int64{gvltest.Base + 11*gvltest.Sec, gvltest.Base + 14*gvltest.Sec}
		for _, id := range []sampler.ThreadID{1, 2, 3} {
			for i, c := range was[id] {
				until := end
				if i+1 < len(was[id]) {
					until = was[id][i+1].atNS
				}
				if until-c.atNS < 400*gvltest.MS || c.atNS <= hole[1] && until >= hole[0] || c.atNS-was[id][0].atNS < gvltest.Sec {
					continue
				}
				at := until - 150*gvltest.MS
				got := tl.Since(id, c.state, at, at-60*gvltest.Sec)
				if d := got - c.atNS; d < -defaultColumnNS || d > 2*gvltest.MS {
					t.Errorf("seed %d: thread %d is %v since %d ms, found %d ms", seed, id, c.state, (c.atNS-gvltest.Base)/gvltest.MS, (got-gvltest.Base)/gvltest.MS)
				}
				looked++
				if got := tl.Since(id, c.state, at, at-50*gvltest.MS); got != at-50*gvltest.MS {
					t.Errorf("seed %d: not before %d ms, found %d ms", seed, (at-50*gvltest.MS-gvltest.Base)/gvltest.MS, (got-gvltest.Base)/gvltest.MS)
				}
			}
		}
	}
	if looked < 20 {
		t.Fatalf("only %d stretches were long enough", looked)
	}
}

// BenchmarkTimelineRows measures a row of cells over 30 s for a group of 500 threads. Most of these threads are idle.
func BenchmarkTimelineRows(b *testing.B) {
	p := gvltest.ProcOf(sampler.EraSched)
	c, stream := gvl.NewClassifier(p, nil), stream.New(p)
	tl := New(stream, 0, 6000)
	var ids []sampler.ThreadID
	for id := range sampler.ThreadID(500) {
		ids = append(ids, id+1)
	}
	at := playTimeline(stream, c, gvltest.Base, 31*gvltest.Sec, func(at int64) *sampler.Sample {
		var threads []sampler.Thread
		busy := sampler.ThreadID(at/gvltest.MS%100) + 1
		for _, id := range ids {
			if id == busy {
				threads = append(threads, gvltest.Holder(id))
			} else {
				threads = append(threads, gvltest.Asleep(id, 1, sampler.BlockSleep))
			}
		}
		return gvltest.SampleAt(at, busy, threads...)
	})
	from, to := tl.Window(at, 30*gvltest.Sec, 150)
	var buf []Cell
	b.Run("row", func(b *testing.B) {
		for b.Loop() {
			buf = tl.AppendRows(buf[:0], ids, from, to, 150)
		}
	})
	b.Run("totals", func(b *testing.B) {
		for b.Loop() {
			for _, id := range ids {
				tl.Totals(id, from, to)
			}
		}
	})
}
