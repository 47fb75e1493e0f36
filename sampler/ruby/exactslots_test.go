package ruby

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// TestExactReadingKnowsItsSlots: ZJIT keeps parts of frames in slots. An exact reading of a stack (readExact) must find
// the slots of all frames that it reads. This must not depend on the depth of the thread's last stack, or on whether
// the middle of the stack is left out.
func TestExactReadingKnowsItsSlots(t *testing.T) {
	m := wordMemory{}
	r := zjitReader(m)
	r.stacks.maxDepth, r.stacks.maxStackBytes, r.stacks.cutAt = 8, 1<<30, 1<<30
	const low, end, ec, th = 0x10000, 0x20000 - 0x20000%56%8, 0x900000, 0xa00000
	slot := func(b int) attach.Address { return attach.Address(0x70000000 - b*0x100) }
	set := func(depth int) {
		for b := 0; b < depth; b++ {
			f := make([]byte, 56)
			binary.LittleEndian.PutUint64(f[frameISeq:], uint64(1000+b))
			binary.LittleEndian.PutUint64(f[48:], uint64(slot(b))+8)
			for o := 0; o < 56; o += 8 {
				m[attach.Address(end-(b+1)*56+o)] = binary.LittleEndian.Uint64(f[o:])
			}
			m[slot(b)] = uint64(0x5000 + b*16)
		}
		m[ec+ecVMStack], m[ec+ecVMStackSize], m[ec+ecCFP] = low, (end-low)/8, uint64(end-depth*56)
		m[th] = ec
	}
	x := &thread{addr: th}
	s := &x.stack
	read := func(depth int) {
		t.Helper()
		set(depth)
		s.ec, s.keptEC, s.low, s.end, s.cfp = ec, ec, low, end, attach.Address(end-depth*56)
		if !r.stacks.planAndRead(&r.stacks.exact, x) {
			t.Fatal("not read")
		}
		area, outcome := r.stacks.locate(x, r.stacks.exact.ranges[s.plan.at:][:s.plan.size])
		if outcome != stackFound {
			t.Fatalf("depth %d: outcome %d", depth, outcome)
		}
		if drop, outcome := r.stacks.compare(&r.stacks.exact, x, &area, false); drop != 0 || outcome != stackAgreed {
			t.Errorf("depth %d, %d inner and %d outer frames: drop %d, outcome %d; want 0, %d", depth, area.inner, area.outer, drop, outcome, stackAgreed)
		}
	}
	for _, depth := range []int{40, 40, 41, 60, 39} { // the middle of these stacks is left out
		read(depth)
	}
	r.stacks.maxDepth = 100
	*s = stackState{}
	for _, depth := range []int{40, 41, 90, 20} {
		read(depth)
	}
}
