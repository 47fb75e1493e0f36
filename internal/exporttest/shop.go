// Package exporttest has what the tests of all export formats share: a made-up process, and names that could attack
// terminals and browsers.
package exporttest

import (
	"math/rand/v2"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/sampler"
)

// Shop is a small, made-up order service, always the same: a process, its dictionary of names, one sample with the
// states of its threads, and the weights of 30 s.
type Shop struct {
	Proc    sampler.Process
	Dict    *sampler.Dictionary
	Sample  *sampler.Sample
	States  []gvl.ThreadState
	Weights *flamegraph.Snapshot
}

// NewShop returns the shop.
func NewShop() Shop {
	d := sampler.NewDictionary()
	frame := func(label, name, path string, first, line int32, c bool) sampler.FrameID {
		f := sampler.Frame{Label: label, Name: name, Path: path, FirstLine: first, Line: line, C: c}
		if path != "" && path[0] != '<' && path[0] != '(' {
			f.AbsolutePath = "/srv/" + path
		}
		return d.InternFrame(f)
	}
	stack := func(fs ...sampler.FrameID) sampler.StackID { return d.InternStackOf(fs) } // innermost first
	mainFrame := frame("<main>", "<main>", "app.rb", 1, 60, false)
	loop := frame("Reports.loop", "loop", "app/reports.rb", 5, 7, false)
	build41 := frame("Reports#build", "build", "app/reports.rb", 40, 41, false)
	build43 := frame("Reports#build", "build", "app/reports.rb", 40, 43, false)
	json := frame("JSON.generate", "generate", "gems/json-2.9.1/lib/json/common.rb", 300, 311, false)
	read := frame("IO#read", "read", "app/db.rb", 0, 17, true)
	query := frame("DB#query", "query", "app/db.rb", 12, 17, false)
	handle := frame("block (2 levels) in Server#handle", "handle", "app/server.rb", 22, 24, false)
	join := frame("Thread#join", "join", "app.rb", 0, 60, true)
	lock := frame("Thread::Mutex#lock", "lock", "app/cart.rb", 0, 9, true)
	cart := frame("Cart#add", "add", "app/cart.rb", 8, 9, false)
	stock := frame("Stock#reserve", "reserve", "app/stock.rb", 3, 4, false)
	eval := frame("block in <main>", "<main>", "(eval at app.rb:3)", 1, 1, false)
	d.SetThread(sampler.ThreadInfo{ID: 1, Main: true, Ractor: 1, TID: 4242})
	names := map[sampler.ThreadID]string{2: "worker-3", 3: "http-1", 4: "http-2", 5: "cart", 6: `stock "α"`}
	for id, n := range names {
		d.SetThread(sampler.ThreadInfo{ID: id, Name: n, HasName: true, Ractor: 1, TID: 4250 + int32(id)})
	}
	d.SetThread(sampler.ThreadInfo{ID: 7, Ractor: 1})
	peer := d.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.5:5432", Local: "10.0.0.9:51002", Service: "PostgreSQL"})

	at := int64(1000e9)
	thread := func(id sampler.ThreadID, status sampler.Status, st sampler.StackID) sampler.Thread {
		t := sampler.Thread{ID: id, Ractor: 1, TID: 4250 + int32(id), Status: status, Stack: st, Quality: sampler.StackFresh}
		t.Kernel = sampler.Kernel{CPUAtNS: at - 5e6, CPUNS: int64(id) * 1234e6, FD: -1}
		return t
	}
	ths := []sampler.Thread{
		thread(1, sampler.StoppedForever, stack(join, mainFrame)),
		thread(2, sampler.Runnable, stack(json, build43, loop, mainFrame)),
		thread(3, sampler.Runnable, stack(query, handle)),
		thread(4, sampler.Stopped, stack(read, query, handle)),
		thread(5, sampler.StoppedForever, stack(lock, cart, handle)),
		thread(6, sampler.StoppedForever, stack(lock, stock, handle)),
		{ID: 7, Ractor: 1, Status: sampler.Runnable, Quality: sampler.StackFailed, Bits: sampler.BitUnmounted},
	}
	ths[0].TID = 4242
	ths[0].Bits |= sampler.BitMain
	ths[2].Quality |= sampler.StackPartial | sampler.StackTruncated
	ths[2].Omitted = 12
	query7 := d.InternText("SELECT * FROM orders WHERE id = ?")
	orders := sampler.Work{Number: 7, Kind: sampler.WorkRequest, Endpoint: "GET orders#index", SinceNS: at - 1_840e6, BeforeNS: at - 1_850e6, QueuedNS: 12e6}
	ths[3].Serving = sampler.Serving{Work: d.InternWork(orders), Statement: query7, Span: 1<<63 + 5, RootSpan: 9}
	job := sampler.Work{Number: 8, Kind: sampler.WorkJob, Endpoint: "MailJob", SinceNS: at - 9e9, Values: "[1, \"a@b.c\"]"}
	ths[4].Serving = sampler.Serving{Work: d.InternWork(job), Exception: d.InternText("Timeout::Error: execution expired")}
	ths[2].Resumers = []sampler.StackID{stack(eval)}
	s := &sampler.Sample{
		TimeNS: at, ReadNS: 84_000, Depth: sampler.StackTick, Threads: ths,
		Ractors: []sampler.Ractor{{ID: 1, OwnerStart: 2, OwnerEnd: 2, Queue: []sampler.ThreadID{3, 7}, Waiting: 2}},
		Reads:   sampler.Reads{Torn: 3, Retried: 2, Partial: 1, Failed: 1},
		GC: sampler.GC{Valid: true, Mode: sampler.GCSweeping, Count: 43, MinorCount: 41, MajorCount: 2, TimeNS: 812e6, Allocated: 3_412_000,
			Reason: sampler.GCByMalloc | sampler.GCMajorByOldGen},
	}
	for _, f := range s.GCDetail.Fields() {
		*f = sampler.GCUnknown
	}
	g := &s.GCDetail
	g.AtNS, g.Allocated, g.Freed, g.Live, g.AvailableSlots, g.FreeSlots = at-60e6, 3_411_900, 2_200_000, 1_211_900, 1_400_000, 188_100
	g.MallocIncrease, g.MallocLimit, g.NextMajor, g.Measuring, g.HeapCount = 9<<20, 16<<20, sampler.GCMajorByOldMalloc, true, 1
	for _, f := range g.Heaps[0].Fields() {
		*f = sampler.GCUnknown
	}
	g.Heaps[0].SlotSize, g.Heaps[0].Slots, g.Heaps[0].Pages = 40, 1_400_000, 855
	verdict := func(i int, st gvl.State, since int64, d gvl.Detail) gvl.ThreadState {
		return gvl.ThreadState{Thread: ths[i].ID, Ractor: 1, State: st, Detail: d, SinceNS: at - since, AtNS: at, Stack: ths[i].Stack}
	}
	states := []gvl.ThreadState{
		verdict(0, gvl.Parked, 60e9, gvl.Detail{FD: -1, Kind: "Thread", Joined: 2}),
		verdict(1, gvl.Running, 41e6, gvl.Detail{FD: -1}),
		verdict(2, gvl.Waiting, 12e6, gvl.Detail{FD: -1, Wait: gvl.WaitQueue, After: gvl.IO}),
		verdict(3, gvl.IO, 2310e6, gvl.Detail{FD: 14, Op: gvl.OpRead, Syscall: "read", Peer: peer}),
		verdict(4, gvl.Lock, 1820e6, gvl.Detail{FD: -1, Kind: "Mutex", Object: 0x7f2c000010a8, Holder: 6}),
		verdict(5, gvl.Lock, 1810e6, gvl.Detail{FD: -1, Kind: "Mutex", Object: 0x7f2c000010c0, Holder: 5}),
		verdict(6, gvl.Waiting, 1e6, gvl.Detail{FD: -1, Wait: gvl.WaitQueue}),
	}
	w := &flamegraph.Snapshot{FromNS: at - 30e9, ToNS: at, Entries: []flamegraph.Entry{
		{Key: flamegraph.Key{Thread: 2, Stack: ths[1].Stack, State: gvl.Running}, Weights: flamegraph.Weights{WallNS: 21e9, CPUNS: 20e9, BlameNS: 30e9, Samples: 2100}},
		{Key: flamegraph.Key{Thread: 2, Stack: stack(build41, loop, mainFrame), State: gvl.Running}, Weights: flamegraph.Weights{WallNS: 8e9, CPUNS: 8e9, Samples: 800}},
		{Key: flamegraph.Key{Thread: 2, Stack: stack(build41, loop, mainFrame), State: gvl.GC}, Weights: flamegraph.Weights{WallNS: 1e9, CPUNS: 1e9, Samples: 100}},
		{Key: flamegraph.Key{Thread: 3, Stack: ths[2].Stack, State: gvl.Waiting}, Weights: flamegraph.Weights{WallNS: 27e9, WaitNS: 27e9, Samples: 2700}},
		{Key: flamegraph.Key{Thread: 3, Stack: ths[3].Stack, State: gvl.IO}, Weights: flamegraph.Weights{WallNS: 3e9, CPUNS: 12345, Samples: 300}},
		{Key: flamegraph.Key{Thread: 7, Stack: 0, State: gvl.Unknown}, Weights: flamegraph.Weights{WallNS: 30e9, Samples: 3000}},
		{Key: flamegraph.Key{Thread: 1, Stack: ths[0].Stack, State: gvl.Parked}, Weights: flamegraph.Weights{WallNS: 30e9, Samples: 3000}},
	}}
	attached := time.Date(2026, 11, 20, 14, 3, 22, 418_000_001, time.UTC)
	return Shop{
		Proc: sampler.Process{
			PID: 4242, Title: "order-service", RubyVersion: "3.4.11", JIT: "yjit", StackRate: 100, LockRate: 1000,
			RubyDescription: "ruby 3.4.11 (2026-01-01 revision 0) +YJIT +PRISM [x86_64-linux]", AttachedAt: attached, AttachedNS: at,
		},
		Dict: d, Sample: s, States: states, Weights: w,
	}
}

// Stream returns samples of the shop that cover 60 ms. Ticks are 5 ms apart, and every second tick reads stacks.
// worker-3 builds reports, http-1 reads from the database and then waits for the GVL, and a garbage collection runs.
// Thread 7 begins late, on the native thread on which thread 6 ran before.
func (s Shop) Stream() func() *sampler.Sample {
	x := s.Sample.Clone()
	x.TimeNS -= 60e6
	x.GC = sampler.GC{Valid: true, Count: 7, Allocated: 1000}
	x.Ractors = []sampler.Ractor{{ID: 1, OwnerStart: 2, OwnerEnd: 2}}
	all := x.Threads
	for i := range all {
		t := &all[i]
		t.Bits, t.Status, t.Blocked, t.Kernel = sampler.BitBlockingRegion, sampler.StoppedForever, sampler.Blocked{FD: -1}, sampler.Kernel{FD: -1}
	}
	all[0].Blocked = sampler.Blocked{Kind: sampler.BlockJoin, Holder: 2, FD: -1}
	all[1].Bits, all[1].Status, all[1].Kernel.CPUAtNS = sampler.BitLinked, sampler.Runnable, x.TimeNS
	all[3].Kernel = sampler.Kernel{FD: 14, Syscall: sampler.SyscallNone}
	all[4].Blocked = sampler.Blocked{Kind: sampler.BlockMutex, Object: 0x7f2c000010a8, Holder: 6, FD: -1}
	tick := 0
	return func() *sampler.Sample {
		x.TimeNS += 5e6
		x.Depth = sampler.Depth(tick % 2)
		x.Threads = all[:6+min(tick/4, 1)]
		http := &all[2]
		if tick < 5 {
			http.Blocked = sampler.Blocked{Kind: sampler.BlockIO, FD: 14}
			http.Kernel = sampler.Kernel{FD: 14, Syscall: "read", Peer: s.States[3].Detail.Peer, StateAtNS: x.TimeNS}
			x.Ractors[0].Queue, x.Ractors[0].Waiting = nil, 0
		} else {
			http.Blocked, http.Status, http.Bits = sampler.Blocked{FD: -1}, sampler.Runnable, sampler.BitQueued
			x.Ractors[0].Queue, x.Ractors[0].Waiting = []sampler.ThreadID{3}, 1
		}
		if x.GC.During = tick == 8 || tick == 9; tick == 8 {
			x.GC.Count, x.GC.Reason, x.GC.Mode, x.GC.Minor = 8, sampler.GCByMalloc, sampler.GCMarking, true
		}
		x.GC.Allocated += 500
		k := &all[1].Kernel
		k.CPUAtNS, k.CPUNS = x.TimeNS, k.CPUNS+4_900_001
		x.Proc = sampler.Proc{AtNS: x.TimeNS, UserNS: k.CPUNS, RSSBytes: 50e6 + int64(tick)*1e6}
		tick++
		return x
	}
}

// Random returns a random stream of samples (streamtest.Stream), with the process and the dictionary of names that
// belong to it.
func Random(seed uint64) (sampler.Process, *sampler.Dictionary, func() *sampler.Sample) {
	rnd := rand.New(rand.NewPCG(seed, 12))
	p := streamtest.Process(1000, 100)
	p.PID, p.Title, p.AttachedAt, p.AttachedNS = 77, "random", time.Unix(1_700_000_000, 0).UTC(), 5e9
	d := sampler.NewDictionary()
	for i := range 6 {
		d.SetThread(sampler.ThreadInfo{ID: sampler.ThreadID(i + 1), TID: int32(100 + i/2), Ractor: 1, Main: i == 2})
	}
	stream := streamtest.New(seed, d)
	stream.Damaged = seed%2 == 1
	stream.Fixed = true
	return p, d, func() *sampler.Sample {
		s := stream.Next()
		for i := range s.Threads {
			if k := &s.Threads[i].Kernel; rnd.IntN(4) == 0 {
				k.CPUAtNS, k.CPUNS = s.TimeNS, k.CPUNS+rnd.Int64N(1e6)
			}
		}
		return s
	}
}
