package measure

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// bytesOf turns the bytes of a fuzzer into numbers, one after the other. When no bytes are left, it returns zeros.
type bytesOf []byte

func (b *bytesOf) u8() uint8 {
	if len(*b) == 0 {
		return 0
	}
	v := (*b)[0]
	*b = (*b)[1:]
	return v
}

// num returns a small number in most cases, and sometimes any number at all.
func (b *bytesOf) num() int64 {
	v := b.u8()
	if v < 240 || len(*b) < 8 {
		return int64(v)
	}
	n := int64(binary.LittleEndian.Uint64(*b))
	*b = (*b)[8:]
	return n
}

var fuzzCalls = []string{"", sampler.SyscallRunning, sampler.SyscallNone, "read", "write", "futex", "poll", "ppoll", "wait4", "x"}

func (b *bytesOf) sample(last, now int64) *sampler.Sample {
	s := &sampler.Sample{TimeNS: now, Depth: sampler.Depth(b.u8() % 2), Slow: b.u8()%4 == 0}
	s.GC = sampler.GC{Valid: b.u8()%4 != 0, During: b.u8()%2 == 0, Mode: sampler.GCMode(b.u8()), MajorCount: uint64(b.num())}
	s.Proc = sampler.Proc{AtNS: b.num(), UserNS: b.num(), MajorFaults: b.num(), Periods: b.num(), ThrottledPeriods: b.num()}
	for range b.u8() % 4 {
		s.Ractors = append(s.Ractors, sampler.Ractor{
			ID: sampler.RactorID(b.num()), OwnerStart: sampler.ThreadID(b.num()), OwnerEnd: sampler.ThreadID(b.num()),
			Queue: []sampler.ThreadID{sampler.ThreadID(b.num())},
		})
	}
	for range b.u8() % 6 {
		s.Threads = append(s.Threads, sampler.Thread{
			ID: sampler.ThreadID(b.num()), Ractor: sampler.RactorID(b.num()), TID: int32(b.num()), Status: sampler.Status(b.u8()),
			Bits: sampler.ThreadBits(b.num()), Quality: sampler.StackQuality(b.u8()), Stack: sampler.StackID(b.num()),
			Serving: sampler.Serving{Work: sampler.WorkID(b.u8() % 4)},
			Blocked: sampler.Blocked{Kind: sampler.BlockKind(b.u8()), Object: uint64(b.num()), Holder: sampler.ThreadID(b.num()),
				FD: int32(b.num()), DeadlineNS: b.num()},
			Kernel: sampler.Kernel{StateAtNS: b.num(), CPUAtNS: b.num(), CPUNS: b.num(), RunDelayNS: b.num(),
				Syscall: fuzzCalls[int(b.u8())%len(fuzzCalls)], FD: int32(b.num()), FDs: int32(b.num()), Peer: sampler.PeerID(b.num()),
				Rechecked: b.u8()%2 == 0},
		})
	}
	if v := b.u8(); v%4 > 1 {
		s.Changes = sampler.Changes{FromNS: last, ToNS: now, Fresh: v%8 > 5}
		for range b.u8() % 32 {
			s.Changes.List = append(s.Changes.List, sampler.Change{
				AtNS: last + b.num()*gvltest.MS/8, Thread: sampler.ThreadID(b.num()), TID: int32(b.u8() % 4), State: sampler.GVLState(b.u8() % 6),
				NoCPUNS: b.num(), Doubtful: b.u8()%8 == 0,
			})
		}
		if v%32 == 30 {
			s.Changes.FromNS, s.Changes.ToNS = b.num(), b.num()
		}
	}
	if b.u8()%2 == 0 {
		return s
	}
	s.Fibers = &sampler.Fibers{Cut: b.u8()%2 == 0, AtNS: b.num(), ReadNS: b.num()}
	for range b.u8() % 4 {
		s.Fibers.List = append(s.Fibers.List, sampler.Fiber{Number: sampler.FiberNumber(b.num()), Thread: sampler.ThreadID(b.num()),
			AtNS: b.num(), Serving: sampler.Serving{Work: sampler.WorkID(b.u8() % 4)}})
	}
	return s
}

// FuzzFold plays samples as a damaged or hostile recording can contain them. Nothing may panic or take forever. One GVL
// must have at most one holder, and no time may be negative.
func FuzzFold(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a recording of nothing in particular, which still makes a few samples of a few threads each"))
	f.Add([]byte{0, 250, 255, 255, 255, 255, 255, 255, 255, 127, 1, 1, 0, 0, 3, 250, 255, 255, 255, 255, 255, 255, 255, 255, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		watchdog := time.AfterFunc(2*time.Minute, func() {
			debug.SetTraceback("all")
			panic("an input takes for ever")
		})
		defer watchdog.Stop()
		b := bytesOf(data)
		dict := sampler.NewDictionary()
		fr := dict.InternFrame(sampler.Frame{Label: "Kernel#sleep", C: true})
		dict.InternStack(dict.InternStack(0, fr), sampler.FrameID(b.num()))
		dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "a:1", Local: "b"})
		for n := range sampler.WorkNumber(3) {
			dict.InternWork(sampler.Work{Number: 1 + n, Kind: sampler.WorkRequest, SinceNS: b.num(), BeforeNS: b.num()})
		}
		fold := NewFold(gvltest.ProcOf(sampler.Era(b.u8()%3)), dict, Options{ColumnNS: 10 * gvltest.MS, Columns: 100})
		now := int64(0)
		for range 200 {
			if len(b) == 0 {
				break
			}
			last := now
			switch v := b.u8(); {
			case v < 100:
				now += int64(v) * gvltest.MS
			case v < 250:
				now += int64(v) * 100 * gvltest.MS
			default:
				now = b.num()
			}
			s := b.sample(last, now)
			states := fold.Feed(s)
			held := map[int]bool{}
			for _, ts := range states {
				if ts.State >= gvl.NumStates || ts.SinceNS > ts.AtNS {
					t.Fatalf("%+v", ts)
				}
				gvl.Describe(ts, dict)
				if ri := slices.IndexFunc(s.Ractors, func(r sampler.Ractor) bool { return r.ID == ts.Ractor }); ts.State.Held() && ri >= 0 {
					if held[ri] {
						t.Fatalf("two holders: %+v", states)
					}
					held[ri] = true
				}
			}
		}
		v := fold.View()
		st := v.Account.Stat()
		for _, th := range st.Threads {
			if n := th.NS; min(n.Running, n.Stalled, n.GC, n.Waiting, n.Native, n.IO, n.Lock, n.Parked, n.Sleeping, n.Unknown) < 0 {
				t.Fatalf("negative time: %+v", th)
			}
		}
		if _, err := json.Marshal(st); err != nil {
			t.Fatal(err)
		}
		from, to := v.Timeline.Range()
		from, to = v.Timeline.Window(to, to-from, 20)
		for _, id := range v.Timeline.Threads(nil, from, to) {
			for _, c := range v.Timeline.Row(id, from, to, 20) {
				if c.Share < 0 || c.Share > 1 {
					t.Fatalf("%+v", c)
				}
			}
		}
		for _, r := range v.Timeline.Ractors() {
			v.Timeline.Owners(r, from, to, 20)
		}
		v.Timeline.Process(from, to, 20)
		v.Blame.Top(3, account.ByFrame, 10e9)
		v.Findings.Current()
		for _, e := range v.Requests.Endpoints(0, math.MaxInt64) {
			if e.FiberNS < 0 || slices.Min(e.NS[:]) < 0 || e.LongestNS < 0 || e.SlackNS < 0 {
				t.Fatalf("negative time: %+v", e)
			}
		}
		v.Requests.Running()
	})
}
