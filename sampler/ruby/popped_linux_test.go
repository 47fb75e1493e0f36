package ruby

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// poppedMemory imitates the memory of a thread that returns from some of its methods just after ddtop has read the
// first copy of its stack. From the second reading on, the execution context shows the return. The frames stay
// unchanged in memory, as in Ruby.
type poppedMemory struct {
	attach.Memory
	ec    attach.Address
	by    int // how many bytes of frames the thread has popped
	first bool
}

func (m *poppedMemory) ReadBatch(ranges []attach.Range) (int, error) {
	calls, err := m.Memory.ReadBatch(ranges)
	for _, x := range ranges {
		if x.Addr != m.ec {
			continue
		}
		if !m.first {
			cfp := x.Buf[ecCFP:]
			binary.LittleEndian.PutUint64(cfp, le64(cfp)+uint64(m.by))
		}
		m.first = false
	}
	return calls, err
}

// TestPoppedFrames: some methods return while ddtop reads the stack, so their frames are popped, but the bytes stay in
// memory. All copies have the same bytes, but ddtop must not report these frames.
func TestPoppedFrames(t *testing.T) {
	const depth = 100
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, chainsProgram, rubytest.Options{Args: []string{"parked"}})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			t.Fatal(err)
		}
		var deep *thread
		for _, th := range rd.list.order {
			if rd.dict.Depth(th.stack.id) >= depth {
				deep = th
			}
		}
		if deep == nil {
			t.Fatal("the deep stack was not read")
		}
		st := &deep.stack
		memory, fs, whole := rd.mem, rd.o.Code.FrameSize, *st
		kept := bytes.Clone(st.kept)
		frames := len(kept) / fs
		// a_99 is the innermost method of the chain of calls. The frames inward of a_99 belong to the method in which
		// the thread waits. Count them.
		waits := 0
		for ; waits < frames; waits++ {
			if base, _, ok := rd.dec.Known(attach.Address(le64(kept[waits*fs+frameISeq:]))); ok && base == fmt.Sprintf("a_%d", depth-1) {
				break
			}
		}
		for _, c := range []struct {
			name          string
			popped, limit int
			planned, more bool
		}{
			{name: "twice", popped: 7, limit: defaultMaxDepth, planned: true},
			{name: "more", popped: 7, limit: defaultMaxDepth, planned: true, more: true},
			{name: "deep", popped: 7, limit: defaultMaxDepth},
			{name: "cut", popped: 7, limit: 40},
			{name: "cut, to its outer part", popped: 80, limit: 40},
		} {
			t.Run(c.name, func(t *testing.T) {
				*st = whole
				st.kept, st.restless = nil, 0
				if c.more {
					st.restless = 1
				}
				rd.stacks.maxDepth = c.limit
				m := &poppedMemory{Memory: memory, ec: st.ec, by: c.popped * fs, first: c.planned}
				rd.mem = m
				defer func() { rd.mem = memory }()
				kind := stackExact
				if c.planned {
					kind = stackMoving
				}
				rd.plan.reset()
				rd.stacks.planStack(&rd.plan, deep, kind)
				if err := rd.readPlan(&rd.plan); err != nil {
					t.Fatal(err)
				}
				ok := rd.stacks.finishStack(&rd.plan, deep, true, true)
				dropped := c.popped
				if outer := c.limit/4 + 1; c.popped > c.limit {
					dropped = frames - outer // all frames except the outer part
				}
				want, got := fmt.Sprintf("a_%d", depth-1-(dropped-waits)), "none"
				for _, id := range rd.dict.Frames(st.id, nil) {
					if f := rd.dict.Frame(id); chainFrame.MatchString(f.Name) {
						got = f.Name
						break
					}
				}
				if !ok || st.quality&sampler.StackPartial == 0 || got != want {
					t.Errorf("read %v, the innermost frame is %s (quality %b), want %s", ok, got, st.quality, want)
				}
			})
		}
	})
}
