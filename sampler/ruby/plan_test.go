package ruby

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// sealed is the memory of a target that the test must not read: each read fails the test.
type sealed struct{ t *testing.T }

func (m sealed) Read(addr attach.Address, _ []byte) error {
	m.t.Errorf("%s was read", addr)
	return attach.ErrUnmapped
}

func (m sealed) ReadBatch(ranges []attach.Range) (int, error) {
	m.t.Errorf("%d ranges were read", len(ranges))
	return 0, attach.ErrUnmapped
}

// planned opens a captured process as a Reader and runs some ticks on it. After that, any further read fails the test.
func (g *tickTarget) planned(t *testing.T) *Reader {
	mem := &struct{ attach.Memory }{g.Pages}
	r, err := g.open(mem)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ticks(r, 9); err != nil {
		t.Fatal(err)
	}
	mem.Memory = sealed{t}
	r.begin()
	r.list.sample++
	return r
}

// TestPlanOfTick: a tick reads no memory but the ranges of its plan. The test plans the tick of a captured process,
// fills the plan from captured memory, and makes the sample from the plan alone.
func TestPlanOfTick(t *testing.T) {
	for _, g := range loadTicks(t) {
		t.Run(g.Version, func(t *testing.T) {
			r := g.planned(t)
			r.planTick(sampler.StackTick, false)
			var order []purpose
			stacks := map[*thread]bool{}
			for i, x := range r.plan.parts {
				if x.what == forWork {
					if before := r.plan.parts[i-1]; before.what != forStack || before.thread != x.thread {
						t.Errorf("what %v works for is read behind %v", x.thread, before.what)
					}
					continue
				}
				if n := len(order); n == 0 || order[n-1] != x.what {
					order = append(order, x.what)
				}
				if x.what == forStack {
					stacks[x.thread] = true
					if k := x.thread.stack.plan.kind; k != stackStill {
						t.Errorf("the stack of %v, which stands still, is read as %v", x.thread, k)
					}
				}
			}
			want := []purpose{forSchedulers, forThreads, forOwners, forHolder, forStack, forCounters, forCountersAgain}
			if !slices.Equal(order, want) {
				t.Errorf("the parts of the plan are %v, want %v", order, want)
			}
			if len(stacks) != len(g.Names) {
				t.Errorf("stacks of %d threads of %d are planned", len(stacks), len(g.Names))
			}
			if text := r.plan.String(); strings.Count(text, "\n") != len(r.plan.parts) ||
				!strings.Contains(text, fmt.Sprintf("of thread %d: still, copies: 1", r.list.order[1].id)) {
				t.Errorf("the plan says\n%s", text)
			}
			if _, err := g.Pages.ReadBatch(r.plan.ranges); err != nil {
				t.Fatal(err)
			}
			var s sampler.Sample
			if outcome := r.interpret(&s, r.now(), false); outcome != tickRead {
				t.Fatalf("the outcome is %d", outcome)
			}
			once := r.stacks.ways[wayOnce]
			r.finishStacks(sampler.StackTick)
			if n := r.stacks.ways[wayOnce] - once; n != uint64(len(g.Names)) || !s.GC.Valid {
				t.Errorf("%d stacks of %d are the same, the collector is valid: %v", n, len(g.Names), s.GC.Valid)
			}
		})
	}
}

// TestStackOutcomes: the outcome of reading a stack depends only on the bytes that were read. The test reads one
// captured stack with each kind of plan, and changes the bytes as a running thread would.
func TestStackOutcomes(t *testing.T) {
	type reading struct {
		*stackState
		ranges []attach.Range
		size   int // size of a frame, in bytes
	}
	put := func(b []byte, v attach.Address) { binary.LittleEndian.PutUint64(b, uint64(v)) }
	for _, g := range loadTicks(t) {
		for _, c := range []struct {
			name   string
			kind   stackKind
			forget bool // before the reading, forget the data kept from the last one
			change func(reading)
			want   stackOutcome
			drop   int
		}{
			{name: "as it was", kind: stackStill, want: stackSame},
			{name: "as it was, twice", kind: stackMoving, want: stackSame},
			{name: "where it waited", kind: stackResting, want: stackSame},
			{name: "another", kind: stackStill, change: func(s reading) { s.copies[0].frames[len(s.copies[0].frames)-s.size]++ }, want: stackChanged},
			{name: "new", kind: stackMoving, forget: true, want: stackAgreed},
			{name: "new, exactly", kind: stackExact, forget: true, want: stackAgreed},
			{name: "no context", kind: stackMoving, change: func(s reading) { s.ranges[0].Failed = true }, want: stackLost},
			{name: "no second copy", kind: stackMoving, forget: true, change: func(s reading) { s.ranges[len(s.ranges)-2].Failed = true }, want: stackUnread},
			{name: "no frames, exactly", kind: stackExact, change: func(s reading) { s.ranges[0].Failed = true }, want: stackUnread},
			{name: "ended", kind: stackMoving, change: func(s reading) { put(s.copies[0].ec[ecCFP:], 0) }, want: stackNone},
			{name: "another fiber's", kind: stackMoving, change: func(s reading) { put(s.copies[0].ec[ecVMStack:], s.low-attach.Address(s.size)) }, want: stackUnseen},
			{name: "deeper", kind: stackMoving, change: func(s reading) {
				put(s.copies[0].ec[ecCFP:], s.cfp-attach.Address((frameSlack+1)*s.size))
			}, want: stackGrown},
			{name: "much deeper", kind: stackMoving, change: func(s reading) {
				put(s.copies[0].ec[ecCFP:], s.end-attach.Address((defaultMaxDepth+2*frameSlack+1)*s.size))
			}, want: stackDeep},
			{name: "switched", kind: stackMoving, forget: true, change: func(s reading) { s.th2[0] ^= 8 }, want: stackSwitched},
			{name: "popped", kind: stackMoving, forget: true, change: func(s reading) {
				put(s.copies[1].ec[ecCFP:], s.cfp+attach.Address(2*s.size))
			}, want: stackPartly, drop: 2},
			{name: "called another", kind: stackExact, forget: true, change: func(s reading) { s.copies[1].frames[s.size+frameISeq] ^= 8 }, want: stackPartly, drop: 2},
			{name: "all another", kind: stackMoving, forget: true, change: func(s reading) { put(s.copies[1].ec[ecVMStack:], s.low-attach.Address(s.size)) }, want: stackTorn},
		} {
			t.Run(g.Version+" "+c.name, func(t *testing.T) {
				r := g.planned(t)
				th := r.list.order[slices.Index(g.Names, "deep")]
				s := &th.stack
				if c.forget {
					s.kept, s.resting = nil, restingStack{}
				}
				r.plan.reset()
				r.stacks.planStack(&r.plan, th, c.kind)
				if _, err := g.Pages.ReadBatch(r.plan.ranges); err != nil {
					t.Fatal(err)
				}
				if c.change != nil {
					c.change(reading{s, r.plan.ranges, r.o.Code.FrameSize})
				}
				area, outcome := r.stacks.locate(th, r.plan.ranges[s.plan.at:][:s.plan.size])
				drop := 0
				if outcome == stackFound {
					drop, outcome = r.stacks.compare(&r.plan, th, &area, false)
				}
				if outcome != c.want || outcome == stackPartly && drop != c.drop {
					t.Errorf("the outcome of %v is %d, %d frames are dropped; want %d, %d", &s.plan, outcome, drop, c.want, c.drop)
				}
			})
		}
	}
}
