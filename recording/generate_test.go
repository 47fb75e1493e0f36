package recording

import (
	"fmt"
	"math/rand/v2"

	"github.com/ddtop/ddtop/sampler"
)

// generator makes samples of two kinds. A wild sample can have any value in each field. A sample of a program looks
// like a sample of a real program.
type generator struct {
	r      *rand.Rand
	d      *sampler.Dictionary
	stacks []sampler.StackID
	peers  []sampler.PeerID
	works  []sampler.WorkID
	texts  []sampler.TextID
	s      sampler.Sample
	nextID sampler.ThreadID
	tick   int
	busy   int
	after  int64
	looks  int
	// noFibers leaves out the fibers that wait, as versions before 4 did.
	noFibers bool
	// noQueues leaves out the queues in front of the process, as versions before 8 did.
	noQueues bool
	// noLocks leaves out the locks of C code, as versions before 9 did.
	noLocks bool
	lock    *lockModel
	// noNative leaves out the C functions in which threads stay, as versions before 11 did.
	noNative bool
	// noUse leaves out which processes used the CPUs, and the program's Queues, as versions before 12 did.
	noUse bool
	// noRuns leaves out the stacks of running threads, as versions before 12 did.
	noRuns bool
	// noBegun leaves out the requests that threads begin, as versions before 13 did.
	noBegun bool
	// noExceptions leaves out the exceptions that ended threads, and the users of Queues, as versions before 14 did.
	noExceptions bool
	// noChanges leaves out the changes of the GVL, as versions before 6 did.
	noChanges bool
	noTraces  bool // spans have no trace IDs
}

func newGenerator(seed uint64) *generator {
	g := &generator{r: rand.New(rand.NewPCG(seed, 7)), d: sampler.NewDictionary(), nextID: 1, lock: newLockModel(seed)}
	// Make 400 stacks of depth 30, as in a web application.
	var frames []sampler.FrameID
	for i := range 600 {
		file := fmt.Sprintf("/usr/local/bundle/ruby/3.4.0/gems/activerecord-8.0.%d/lib/active_record/part_%d.rb", i%5, i%40)
		f := sampler.Frame{Label: fmt.Sprintf("ActiveRecord::Part%d::Relation#method_%d", i%40, i),
			Name: fmt.Sprintf("method_%d", i), Path: file, AbsolutePath: file, Line: int32(10 + i*3), FirstLine: int32(8 + i*3), C: i%7 == 0}
		f.Origin = sampler.Origin(i % int(sampler.NumOrigins))
		if f.Origin == sampler.OriginGem {
			f.Gem = fmt.Sprintf("activerecord 8.0.%d", i%5)
		}
		frames = append(frames, g.d.InternFrame(f))
	}
	for i := range 400 {
		// The innermost frame comes first. A stack has 8 frames of its own, from a few hundred methods. The next 7
		// frames belong to one of 40 actions, and all stacks of an action share them. The 15 outermost frames are of
		// the server and the framework, and all stacks share them.
		var stack []sampler.FrameID
		for depth := range 30 {
			n := depth
			switch {
			case depth < 8:
				n = 30 + (i*17+depth*31)%400
			case depth < 15:
				n = 430 + (i%40)*4 + depth%4
			}
			stack = append(stack, frames[n])
		}
		g.stacks = append(g.stacks, g.d.InternStackOf(stack))
	}
	for i := range 40 {
		p := sampler.Peer{
			Kind: sampler.PeerTCP, Remote: fmt.Sprintf("10.0.0.%d:5432", i%8), Local: fmt.Sprintf("10.1.0.1:%d", 40000+i), Service: "PostgreSQL",
		}
		if i%8 == 3 {
			p.Process = fmt.Sprintf("postgres (pid %d)", i)
		}
		g.peers = append(g.peers, g.d.InternPeer(p))
	}
	for i := range 200 {
		w := sampler.Work{
			Number: sampler.WorkNumber(1 + i), Kind: sampler.WorkKind(1 + i%2), Endpoint: fmt.Sprintf("GET orders#action_%d", i%20),
			SinceNS: 1e15 + int64(i)*7e6, QueuedNS: int64(i%3) * 1e6,
		}
		if i%5 > 0 {
			w.BeforeNS = w.SinceNS - 1e7
		}
		if i%3 == 0 {
			w.Path = fmt.Sprintf("GET /orders/action_%d", i%20)
		}
		if i%7 == 0 {
			w.Values = fmt.Sprintf("/orders/%d?page=1", i)
		}
		g.works = append(g.works, g.d.InternWork(w))
		g.texts = append(g.texts, g.d.InternText(fmt.Sprintf("SELECT part_%d FROM orders WHERE id = ?", i)))
	}
	return g
}

// serving returns the request for which a thread with a stack works. It uses no random numbers, so that the generated
// files of older versions stay the same.
func (g *generator) serving(id sampler.StackID) sampler.Serving {
	n := int(id) % len(g.works)
	s := sampler.Serving{Work: g.works[n], Span: uint64(n) << 55, RootSpan: ^uint64(n)}
	if !g.noTraces {
		s.Trace = [16]byte{0: byte(n), 7: 0x80, 15: byte(n / 2)}
	}
	if n%3 > 0 {
		s.Statement = g.texts[n]
	}
	if n%4 == 0 {
		s.Exception = g.texts[len(g.texts)-1-n]
	}
	return s
}

// native adds C functions to every third stack, and returns the new stack. It returns 0 for the other stacks. It uses
// no random numbers, so that the generated files of older versions stay the same.
func (g *generator) native(id sampler.StackID) sampler.StackID {
	if g.noNative || id%3 != 0 {
		return 0
	}
	n := uint64(id % 7)
	in := func(library string, offset uint64, name string) sampler.NativeFrame {
		return sampler.NativeFrame{Name: name, Library: library, Path: "/usr/lib/" + library + ".so.5", BuildID: "f15efb61",
			Offset: offset, Function: offset - 16*n}
	}
	stack := sampler.NativeStack{Frames: []sampler.NativeFrame{in("libc", 0x1100, "poll"), in("libpq", 0x2200+n, ""),
		in("libpq", 0x3300, ""), in("libpq", 0x4400, "PQgetResult")}}
	if n == 3 {
		stack.Missing = "libpq finds its frames by register rbp"
	}
	return g.d.InternNative(id, &stack)
}

// runs adds the stacks of running threads to a sample, in two of five samples. It uses no random numbers, so that the
// generated files of older versions stay the same.
func (g *generator) runs() {
	if g.s.Runs = nil; g.noRuns || g.looks%5 > 1 {
		return
	}
	for i, t := range g.s.Threads[:min(len(g.s.Threads), g.looks%4)] {
		r := sampler.NativeRun{AtNS: g.s.TimeNS - int64(1e7*(i+1)), Thread: t.ID, Stack: t.Stack, Holds: i%2 == 0, Collects: i%3 == 0}
		if with := g.native(t.Stack); with != 0 {
			r.Stack = with
		}
		g.s.Runs = append(g.s.Runs, r)
	}
}

// queues makes the queues of a sample. They are new in every fifth sample. queues uses no random numbers, so that the
// generated files of older versions stay the same.
func (g *generator) queues() {
	n := int64(g.looks)
	if n%5 != 1 || g.noQueues {
		return
	}
	q := &sampler.Queues{AtNS: g.s.TimeNS - n, Accept: sampler.Accept{Known: n%3 > 0, Cut: n%2 > 0, Overflows: n, Drops: sampler.UnknownCount}}
	if !q.Accept.Known {
		q.Accept.Why = "permission denied"
	}
	for i := range n % 4 {
		q.Accept.Listeners = append(q.Accept.Listeners, sampler.Listener{Inode: uint64(77 + i), Address: fmt.Sprintf("127.0.0.1:%d", 9290+i), Queued: n, Limit: 1024})
		q.Pools = append(q.Pools, sampler.Pool{Kind: sampler.PoolPuma, Threads: 5, Busy: i, Max: 5, Queued: n, Clients: sampler.UnknownCount})
	}
	for i := range n % 3 {
		if !g.noUse {
			l := sampler.List{Object: uint64(0x7f00 + 8*i), Name: "@jobs", Length: 100 * n}
			if !g.noExceptions && i == 0 {
				l.Putters, l.Takers = []sampler.ThreadID{sampler.ThreadID(1 + n%7)}, []sampler.ThreadID{2, 9}
				l.Array = n%2 > 0
			}
			q.Lists = append(q.Lists, l)
		}
	}
	if g.s.Queues = q; n%7 == 0 {
		g.s.Queues = nil
	}
}

// nativeLocks makes the locks of C code in a sample. They are new in every fourth sample. nativeLocks uses no random
// numbers, so that the generated files of older versions stay the same.
func (g *generator) nativeLocks() {
	n := g.looks
	if n%4 != 1 || g.noLocks {
		return
	}
	locks := &sampler.NativeLocks{AtNS: g.s.TimeNS - int64(n)}
	for i := range n % 3 {
		l := sampler.NativeLock{Address: uint64(0x7f00 + i), Function: "getaddrinfo", Library: "libc",
			State: sampler.LockState(i % 4), Owner: int32(100 * i), FromPID: int32(i), Others: int32(n)}
		for _, t := range g.s.Threads {
			l.Waiters = append(l.Waiters, t.ID)
			l.Holder = t.ID
		}
		locks.List = append(locks.List, l)
	}
	if g.s.NativeLocks = locks; n%7 == 0 {
		g.s.NativeLocks = nil
	}
}

// cpuUse makes the list of processes that used the CPUs. The list is new in every sixth sample. cpuUse uses no random
// numbers, so that the generated files of older versions stay the same.
func (g *generator) cpuUse() {
	n := int64(g.looks)
	if n%6 != 1 || g.noUse {
		return
	}
	u := &sampler.CPUUse{FromNS: g.s.TimeNS - 5e9, AtNS: g.s.TimeNS - n, CPUs: 2, AllNS: 9e9 + n, UnseenNS: n, OthersNS: 8e9,
		Contained: n%4 > 1, LimitMilli: 500 * (n % 3)}
	for i := range n % (sampler.MaxCPUUsers + 1) {
		u.Users = append(u.Users, sampler.CPUUser{PID: int32(4000 + i), Processes: 1 + i, Name: "cc1", NS: 4e9 - i})
	}
	if g.s.CPUUse = u; n%7 == 0 {
		g.s.CPUUse = nil
	}
}

// waiting makes the fibers that wait in a sample. They are new in every third sample. waiting uses no random numbers,
// so that the generated files of older versions stay the same.
func (g *generator) waiting() {
	s, n := &g.s, g.looks
	if g.looks++; n%3 > 0 || g.noFibers {
		return
	}
	if s.Fibers = nil; n%13 == 0 {
		return
	}
	f := &sampler.Fibers{Cut: n%2 == 0, AtNS: s.TimeNS - int64(n)*1e6, ReadNS: int64(n) * 777}
	for i := range n % 40 {
		if (i+n)%5 == 0 {
			continue
		}
		x := sampler.Fiber{Number: sampler.FiberNumber(10 + i), Stack: g.stacks[(i*7+n)%len(g.stacks)], Created: i%11 == 0, AtNS: f.AtNS + int64(i*n)}
		if i%3 > 0 {
			x.Serving = g.serving(g.stacks[i])
		}
		if len(s.Threads) > 0 {
			x.Thread = s.Threads[i%len(s.Threads)].ID
		}
		f.List = append(f.List, x)
	}
	s.Fibers = f
}

func (g *generator) stack() sampler.StackID { return g.stacks[g.r.IntN(len(g.stacks))] }
func (g *generator) peer() sampler.PeerID   { return g.peers[g.r.IntN(len(g.peers))] }
func (g *generator) chance(p float64) bool  { return g.r.Float64() < p }

// newThread makes a new thread, and adds it to the Dictionary.
func (g *generator) newThread() sampler.Thread {
	t := sampler.Thread{ID: g.nextID, Ractor: 1, TID: int32(4000 + g.nextID), Kernel: sampler.Kernel{FD: -1}, Blocked: sampler.Blocked{FD: -1}}
	g.d.SetThread(sampler.ThreadInfo{ID: t.ID, Name: fmt.Sprintf("puma srv tp %03d", t.ID), HasName: true, Ractor: 1, TID: t.TID,
		FirstSeenNS: g.s.TimeNS, Main: t.ID == 1})
	g.nextID++
	return t
}

// wild changes the sample at random.
func (g *generator) wild() *sampler.Sample {
	s, r := &g.s, g.r
	s.TimeNS += int64(r.IntN(3e7))
	s.ReadNS = r.Int64N(1e6)
	if s.PauseNS = 0; s.ReadNS%3 == 0 {
		s.PauseNS, s.Reads.Pauses = 2*s.ReadNS, s.Reads.Pauses+1
	}
	s.Depth = sampler.Depth(r.IntN(2))
	s.Slow = g.chance(0.2)
	for range r.IntN(3) {
		at := 0
		if len(s.Threads) > 0 {
			at = r.IntN(len(s.Threads))
		}
		s.Threads = append(s.Threads[:at:at], append([]sampler.Thread{g.newThread()}, s.Threads[at:]...)...)
	}
	for len(s.Threads) > 0 && (len(s.Threads) > 30 || g.chance(0.3)) {
		i := r.IntN(len(s.Threads))
		info, _ := g.d.Thread(s.Threads[i].ID)
		if info.GoneNS = s.TimeNS; !g.noExceptions && i%2 == 0 {
			info.Exception = fmt.Sprintf("Shop::Error%d", i)
		}
		g.d.SetThread(info)
		s.Threads = append(s.Threads[:i:i], s.Threads[i+1:]...)
	}
	if g.chance(0.05) {
		r.Shuffle(len(s.Threads), func(i, j int) { s.Threads[i], s.Threads[j] = s.Threads[j], s.Threads[i] })
	}
	for i := range s.Threads {
		g.wildThread(&s.Threads[i])
	}
	g.wildRactors()
	if g.chance(0.3) {
		s.GC = sampler.GC{Valid: g.chance(0.9), During: g.chance(0.3), Mode: sampler.GCMode(r.IntN(4)), Minor: g.chance(0.5),
			Reason: r.Uint32(), Count: r.Uint64(), MinorCount: r.Uint64(), MajorCount: r.Uint64(), TimeNS: r.Uint64(), Allocated: r.Uint64()}
	}
	g.wildGC()
	if g.chance(0.1) {
		for _, f := range procFields(&s.Proc) {
			*f = int64(r.Uint64())
		}
		s.Proc.Pressure.Source = sampler.PressureSource(r.IntN(int(sampler.PressureMachine) + 1))
		s.Self = sampler.Self{CPUNS: int64(r.Uint64()), MaxRSSBytes: int64(r.Uint64()),
			Priority: sampler.Priority(r.IntN(int(sampler.PriorityDroppedSilent) + 1))}
	}
	g.wildClasses()
	g.waiting()
	g.queues()
	g.nativeLocks()
	g.cpuUse()
	g.runs()
	g.wildChanges()
	s.Reads.Ticks++
	if s.Depth == sampler.StackTick {
		s.Reads.StackTicks++
	}
	if g.chance(0.3) {
		*readsFields(&s.Reads)[r.IntN(10)] = r.Uint64()
	}
	s.Reads.Calls += 2
	return s
}

// wildGC changes the allocation pair and the details of the garbage collector at random.
func (g *generator) wildGC() {
	s, r := &g.s, g.r
	if g.chance(0.5) {
		s.GC.Pair = sampler.AllocPair{Thread: sampler.ThreadID(r.Uint32()), Objects: r.Uint32() >> r.IntN(32)}
	}
	if !g.chance(0.2) {
		return
	}
	d := &s.GCDetail
	d.NextMajor, d.HeapCount = r.Uint32(), int32(r.IntN(sampler.MaxGCHeaps+1))
	for _, f := range d.Flags() {
		*f = g.chance(0.5)
	}
	for _, f := range d.Fields() {
		if g.chance(0.5) {
			*f = int64(r.Uint64())
		}
	}
	clear(d.Heaps[d.HeapCount:])
	for i := range d.HeapCount {
		for _, f := range d.Heaps[i].Fields() {
			*f = int64(r.Uint64() >> r.IntN(64))
		}
	}
}

func (g *generator) wildThread(t *sampler.Thread) {
	r := g.r
	for range r.IntN(4) {
		switch r.IntN(16) {
		case 0:
			t.Status = sampler.Status(r.IntN(4))
		case 1:
			t.Bits = sampler.ThreadBits(r.Uint32())
		case 2:
			t.Stack = g.stack()
			t.Serving, t.Native = g.serving(t.Stack), g.native(t.Stack)
		case 3:
			t.Kernel.CPUAtNS, t.Kernel.CPUNS, t.Kernel.RunDelayNS = int64(r.Uint64()), int64(r.Uint64()), int64(r.Uint64())
			// Random numbers would change version1.ddtop, so use none here.
			t.Kernel.Turns = t.Kernel.CPUNS ^ t.Kernel.RunDelayNS
			t.Kernel.Listens = t.Kernel.Turns&1 != 0
		case 4:
			t.Kernel.StateAtNS = int64(r.Uint64())
		case 5:
			t.Kernel.Syscall = []string{"", "read", "futex", sampler.SyscallRunning, "ppoll"}[r.IntN(5)]
		case 6:
			t.Quality = sampler.StackQuality(r.IntN(32))
		case 7:
			t.Kernel.FD, t.Kernel.FDs = int32(r.Uint32()), int32(r.Uint32())
		case 8:
			t.Kernel.Peer = g.peer()
		case 9:
			t.Blocked = sampler.Blocked{Kind: sampler.BlockKind(r.IntN(12)), Object: r.Uint64(), Holder: sampler.ThreadID(r.Uint32()),
				FD: int32(r.Uint32()), Child: int32(r.Uint32()), DeadlineNS: int64(r.Uint64())}
		case 10:
			t.Ractor = sampler.RactorID(r.Uint32())
		case 11:
			t.Resumers = nil
			for range r.IntN(4) {
				t.Resumers = append(t.Resumers, g.stack())
			}
		case 12:
			t.Omitted = r.Uint32()
		case 13:
			t.Kernel.Child = int32(r.Uint32())
		case 14:
			t.Kernel.Rechecked = !t.Kernel.Rechecked
		case 15:
			t.TID, t.Stack, t.Native, t.Kernel.Peer = int32(r.Uint32()), 0, 0, 0
			t.Serving = sampler.Serving{}
		}
	}
}

func (g *generator) wildRactors() {
	s, r := &g.s, g.r
	if g.chance(0.1) || len(s.Ractors) == 0 {
		s.Ractors = nil
		for range r.IntN(4) {
			s.Ractors = append(s.Ractors, sampler.Ractor{ID: sampler.RactorID(1 + len(s.Ractors)*(1+r.IntN(3)))})
		}
	}
	for i := range s.Ractors {
		x := &s.Ractors[i]
		if g.chance(0.3) {
			x.OwnerStart, x.OwnerEnd = sampler.ThreadID(r.IntN(30)), sampler.ThreadID(r.IntN(30))
		}
		if g.chance(0.5) {
			x.Queue = append([]sampler.ThreadID(nil), x.Queue[min(len(x.Queue), r.IntN(3)):]...)
			for range r.IntN(3) {
				x.Queue = append(x.Queue, sampler.ThreadID(r.IntN(100)))
			}
		}
		x.Waiting = int32(len(x.Queue))
		x.Torn = g.chance(0.1)
		if x.Torn {
			x.Queue, x.Waiting = nil, int32(r.IntN(9))
		}
	}
}

// program makes the next sample of a program with n threads, some of which are busy. Samples are 1 ms apart. Every
// tenth sample has the stacks, and the CPU time of those threads that may run. Ten times per second, a sample has the
// CPU time of all threads.
func (g *generator) program(n int) *sampler.Sample {
	s, r := &g.s, g.r
	if len(s.Threads) == 0 {
		s.TimeNS = 1e15
		s.GC.Valid = true
		for range n {
			t := g.newThread()
			t.Stack, t.Status, t.Bits = g.stack(), sampler.StoppedForever, sampler.BitBlockingRegion
			t.Kernel.Syscall, t.Kernel.FD, t.Kernel.FDs, t.Kernel.Peer = "ppoll", int32(10+t.ID), 1, g.peer()
			s.Threads = append(s.Threads, t)
		}
		s.Ractors = []sampler.Ractor{{ID: 1}}
		g.busy = min(n, 10)
	}
	s.TimeNS += 500_000 + 1000*int64(r.IntN(1000))
	s.ReadNS = 20_000 + int64(r.IntN(20_000))
	s.Depth = sampler.LockTick
	if g.tick%10 == 0 {
		s.Depth = sampler.StackTick
	}
	g.tick++
	// ddtop reads the memory first, and then asks the kernel about one thread after the other
	g.after = s.ReadNS/2 + 5000
	ra := &s.Ractors[0]
	if g.chance(0.4) || ra.OwnerStart == 0 { // the GVL goes to another thread
		next := sampler.ThreadID(1 + r.IntN(g.busy))
		if len(ra.Queue) > 0 {
			next, ra.Queue = ra.Queue[0], ra.Queue[1:]
		}
		if old := ra.OwnerStart; old != 0 && old != next {
			t := &s.Threads[old-1]
			t.Bits, t.Status = sampler.BitQueued, sampler.Runnable
			ra.Queue = append(ra.Queue[:len(ra.Queue):len(ra.Queue)], old)
		}
		ra.OwnerStart, ra.OwnerEnd = next, next
		s.Threads[next-1].Bits, s.Threads[next-1].Status = sampler.BitLinked, sampler.Runnable
	}
	ra.Waiting = int32(len(ra.Queue))
	for i := range s.Threads {
		g.programThread(i, &s.Threads[i], ra.OwnerStart)
	}
	s.GC.Allocated += uint64(r.IntN(2000))
	s.GC.During = g.chance(0.05)
	s.GC.Pair = sampler.AllocPair{Thread: ra.OwnerStart}
	if g.chance(0.4) {
		s.GC.Pair.Objects = uint32(1 + r.IntN(8))
	}
	if g.tick%100 == 1 {
		d := &s.GCDetail
		d.AtNS, d.HeapCount, d.Allocated, d.MallocIncrease = s.TimeNS, 5, int64(s.GC.Allocated), int64(r.IntN(16<<20))
		for i := range d.HeapCount {
			h := &d.Heaps[i]
			h.SlotSize, h.Slots, h.Pages, h.Allocated, h.Freed = 40<<i, 16000, 40, h.Allocated+int64(r.IntN(20000)), h.Freed+int64(r.IntN(20000))
		}
	}
	if g.chance(0.01) {
		s.GC.Count++
		s.GC.MinorCount++
		s.GC.TimeNS += uint64(r.IntN(3e6))
	}
	s.Reads.Ticks++
	if s.Depth == sampler.StackTick {
		s.Reads.StackTicks++
	}
	s.Reads.Calls += 2
	if g.tick%250 == 1 {
		s.Proc = sampler.Proc{AtNS: s.TimeNS, UserNS: s.Proc.UserNS + 2e8, RSSBytes: 300<<20 + int64(r.IntN(1<<20)), SwapBytes: 5 << 20,
			Pressure: sampler.Pressure{Source: sampler.PressureMachine, CPUSomeNS: s.Proc.Pressure.CPUSomeNS + 1000*int64(r.IntN(1e5)),
				IOSomeNS: s.Proc.Pressure.IOSomeNS + 1000*int64(r.IntN(1e3))}}
		s.Self = sampler.Self{CPUNS: s.Self.CPUNS + 1e7, MaxRSSBytes: 30 << 20, Priority: sampler.PriorityRaised}
	}
	if g.tick%500 == 1 {
		g.programClasses()
	}
	return s
}

func (g *generator) programThread(i int, t *sampler.Thread, owner sampler.ThreadID) {
	s, r := &g.s, g.r
	t.Quality &^= sampler.StackFresh
	if s.Depth == sampler.StackTick {
		t.Quality |= sampler.StackFresh
	}
	running := t.ID == owner
	if running && (s.Depth == sampler.StackTick || g.chance(0.5)) {
		t.Stack, t.Quality = g.stack(), t.Quality|sampler.StackFresh
	}
	if running || s.Depth == sampler.StackTick && i < g.busy {
		t.Kernel.CPUAtNS = s.TimeNS + g.after + int64(r.IntN(300))
		g.after += 1200
		// The kernel updates a thread's CPU time at its timer tick, every 4 ms. It also does so when the thread leaves
		// a CPU.
		if running && g.chance(0.4) {
			t.Kernel.CPUNS += int64(r.IntN(4_000_000))
		} else if g.chance(0.3) {
			t.Kernel.RunDelayNS += int64(r.IntN(100_000))
		}
	}
	if g.tick%100 == i%100 && i >= g.busy { // thread i gets a request: it wakes up, and waits for the database again
		t.Kernel.StateAtNS = s.TimeNS + g.after + int64(r.IntN(1500))
		t.Kernel.CPUAtNS = t.Kernel.StateAtNS + 1200
		t.Kernel.CPUNS += int64(r.IntN(1000))
		if g.chance(0.5) {
			t.Kernel.Peer, t.Stack = g.peer(), g.stack()
		}
	}
}
