package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

func openTasks(t testing.TB, pid int) (*Tasks, *sampler.Dictionary) {
	t.Helper()
	d := sampler.NewDictionary()
	tasks, err := OpenTasks(pid, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tasks.Close() })
	return tasks, d
}

// TestBlockedThreads: a helper process has threads that block in many system calls, and reports what they wait for.
// ddtop must find the same for each thread.
func TestBlockedThreads(t *testing.T) {
	cmd, all := startBlocker(t, nil)
	pid := cmd.Process.Pid
	tasks, dict := openTasks(t, pid)
	mem := processMemory{pid}
	seen := map[string]bool{}
	for _, b := range all {
		seen[b.Case] = true
		t.Run(b.Case, func(t *testing.T) {
			var call Call
			until(t, fmt.Sprintf("thread %d in %s (it is in %v)", b.TID, b.Call, call), func() bool {
				var err error
				if call, err = tasks.Call(b.TID); err != nil {
					t.Fatal(err)
				}
				return call.Name == b.Call
			})
			k := sampler.Kernel{FD: 99, FDs: 99, Child: 99, Peer: 99} // values that an earlier call left
			tasks.Describe(&k, call, mem)
			if k.Syscall != b.Call || k.FD != b.FD || k.FDs != b.FDs || k.Child != b.Child {
				t.Errorf("got %+v, the program says %+v", k, b)
			}
			got := dict.Peer(k.Peer)
			if b.Pending {
				if got.Remote != "" || got.Local != b.Peer.Local {
					t.Errorf("peer %+v before the connection is made, the program says %+v", got, b.Peer)
				}
				until(t, "the table to be read", func() bool {
					n, err := tasks.ResolveSockets(t.Context(), monotonic())
					if err != nil {
						t.Fatal(err)
					}
					return n > 0
				})
				tasks.Describe(&k, call, mem)
				got = dict.Peer(k.Peer)
			}
			if got.Local == "" || b.Peer.Local == "" {
				// the helper does not know the local address of a connecting socket either
				got.Local, b.Peer.Local = "", ""
			}
			if got != b.Peer {
				t.Errorf("peer %+v, the program says %+v", got, b.Peer)
			}
			comm, err := tasks.Comm(b.TID)
			if err != nil || comm != b.Comm {
				t.Errorf("comm %q, %v; the program says %q", comm, err, b.Comm)
			}
			want := byte('S')
			if b.Case == "running" {
				want = 'R'
			}
			until(t, fmt.Sprintf("state %c", want), func() bool {
				s, err := tasks.State(b.TID)
				return err == nil && (s == want || s == 'D' && b.Case == "page fault")
			})
		})
	}
	for _, c := range []string{"tcp", "connect", "poll for a connection", "wait4", "accept", "pselect6"} {
		if !seen[c] {
			t.Errorf("the helper had no case %q", c)
		}
	}
	if !seen["page fault"] {
		t.Log("no userfaultfd here: sleeping outside a system call was not tested")
	}

	tids, err := tasks.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if !slices.Contains(tids, b.TID) {
			t.Errorf("List %v lacks %d", tids, b.TID)
		}
	}
	children, err := Children(pid)
	if err != nil {
		t.Fatal(err)
	}
	byParent, err := childrenByParent(pid)
	if err != nil {
		t.Fatal(err)
	}
	var want []int
	for _, b := range all {
		if b.Case == "wait4" {
			want = []int{int(b.Child)}
		}
	}
	if !slices.Equal(children, want) || !slices.Equal(byParent, want) {
		t.Errorf("children %v, by their parent %v, the program says %v", children, byParent, want)
	}
}

// TestSocketsByInode: ddtop finds the ends of sockets even if it may not use pidfd_getfd. It asks the kernel by the
// inode, or reads the tables of /proc if it may not ask.
func TestSocketsByInode(t *testing.T) {
	for _, tables := range []bool{false, true} {
		t.Run(fmt.Sprintf("tables=%v", tables), func(t *testing.T) { socketsByInode(t, tables) })
	}
}

func socketsByInode(t *testing.T, tables bool) {
	cmd, all := startBlocker(t, nil)
	tasks, dict := openTasks(t, cmd.Process.Pid)
	tasks.peers.table.noDiag = tables
	tasks.peers.sock.refused = &Error{"pidfd_getfd", "descriptor 3", syscall.EPERM}
	if !errors.Is(tasks.peers.sock.refused, errPermission) {
		t.Errorf("SocketsRefused %v", tasks.peers.sock.refused)
	}
	names := map[string]bool{"tcp": true, "tcp6": true, "service": true, "udp": true, "unix server": true, "accept": true}
	get := func(b blocked) sampler.Peer {
		var k sampler.Kernel
		tasks.Describe(&k, Call{Name: "read", Args: [6]uint64{uint64(b.FD)}}, nil)
		return dict.Peer(k.Peer)
	}
	for _, b := range all {
		if p := get(b); names[b.Case] && (p.Kind != sampler.PeerUnknown || p.Path == "") {
			t.Errorf("%s: %+v before the tables are read", b.Case, p)
		}
	}
	now := int64(1e12)
	n, err := tasks.ResolveSockets(t.Context(), now)
	if err != nil || n < len(names) {
		t.Fatalf("ResolveSockets named %d, %v", n, err)
	}
	if tasks.peers.table.noDiag != tables {
		t.Error("the kernel was not asked")
	}
	for _, b := range all {
		if p := get(b); names[b.Case] && p != b.Peer {
			t.Errorf("%s: %+v, the program says %+v", b.Case, p, b.Peer)
		}
	}
	// After a search, neither the socket that was found nor the one that was not found may cause another search.
	tasks.peers.fromTable(1)
	if _, err := tasks.ResolveSockets(t.Context(), tasks.peers.table.nextNS); err != nil {
		t.Error(err)
	}
	tasks.peers.fromTable(1)
	if len(tasks.peers.wanted) != 0 {
		t.Errorf("searched for again: %v", tasks.peers.wanted)
	}
	now = tasks.peers.table.nextNS - minTableIntervalNS
	tasks.peers.wanted[2] = struct{}{}
	if n, err := tasks.ResolveSockets(t.Context(), now+minTableIntervalNS-1); n != 0 || err != nil {
		t.Errorf("read again too early: %d, %v", n, err)
	}
	if len(tasks.peers.wanted) == 0 {
		t.Error("what waits to be named was dropped without a look")
	}
}

// TestCPU: ddtop reads a thread's CPU time from schedstat. It equals the time that clock_gettime returns for the same
// thread.
func TestCPU(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tasks, _ := openTasks(t, os.Getpid())
	tid := int32(unix.Gettid())
	clock := func() int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
			t.Fatal(err)
		}
		return ts.Nano()
	}
	usage := func() int64 {
		var ru unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &ru); err != nil {
			t.Fatal(err)
		}
		return ru.Utime.Nano() + ru.Stime.Nano()
	}
	// The counter changes only at the kernel's tick (HZ is 100 or more), and when the thread leaves the CPU. So it can
	// be a tick behind.
	const tick = 10e6
	for range 5 {
		before := clock()
		c, err := tasks.CPU(tid)
		if err != nil {
			t.Fatal(err)
		}
		cpu, delay := c.RanNS, c.DelayNS
		if cpu < before-tick || cpu > clock() {
			t.Errorf("schedstat says %d ns, clock_gettime %d before it", cpu, before)
		}
		if u := usage(); u < cpu-2*tick || u > clock()+tick {
			t.Errorf("schedstat says %d ns, getrusage %d", cpu, u)
		}
		if delay < 0 {
			t.Errorf("run delay %d", delay)
		}
		for end := clock() + 30e6; clock() < end; {
		}
	}
}

func TestGone(t *testing.T) {
	cmd, all := startBlocker(t, nil)
	tasks, _ := openTasks(t, cmd.Process.Pid)
	if _, err := tasks.CPU(all[0].TID); err != nil {
		t.Fatal(err)
	}
	if _, err := tasks.Call(1 << 30); !errors.Is(err, ErrGone) {
		t.Errorf("a tid that no thread has: %v", err)
	}
	proc, err := OpenProc(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := tasks.CPU(all[0].TID); !errors.Is(err, ErrGone) {
		t.Errorf("CPU of an ended process: %v", err)
	}
	if _, err := tasks.Call(all[0].TID); !errors.Is(err, ErrGone) {
		t.Errorf("Call of an ended process: %v", err)
	}
	if _, err := tasks.List(); !errors.Is(err, ErrGone) {
		t.Errorf("List of an ended process: %v", err)
	}
	if _, err := proc.Read(1); !errors.Is(err, ErrGone) {
		t.Errorf("Read of an ended process: %v", err)
	}
	for name, open := range map[string]func() error{
		"OpenTasks":     func() error { _, err := OpenTasks(cmd.Process.Pid, sampler.NewDictionary()); return err },
		"OpenProc":      func() error { _, err := OpenProc(cmd.Process.Pid); return err },
		"OpenSlow":      func() error { _, err := OpenSlow(cmd.Process.Pid); return err },
		"OpenNamespace": func() error { _, err := OpenNamespace(cmd.Process.Pid); return err },
		"Children":      func() error { _, err := Children(cmd.Process.Pid); return err },
	} {
		if err := open(); !errors.Is(err, ErrGone) {
			t.Errorf("%s of an ended process: %v", name, err)
		}
	}
}

// TestOpenFilesAreBounded: ddtop can also read threads for which it may not keep files open. If some threads are not
// read for a while, ddtop closes their files, and keeps the files of other threads open.
func TestOpenFilesAreBounded(t *testing.T) {
	cmd, all := startBlocker(t, nil)
	tasks, _ := openTasks(t, cmd.Process.Pid)
	tasks.maxOpen = 6
	readAll := func() {
		for _, b := range all {
			if _, err := tasks.CPU(b.TID); err != nil {
				t.Fatal(err)
			}
			if _, err := tasks.Call(b.TID); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		readAll()
		if tasks.open != 6 {
			t.Fatalf("%d files open, the limit is 6", tasks.open)
		}
	}
	if _, ok := tasks.tasks[all[0].TID]; !ok {
		t.Error("with more threads than room the first ones should keep theirs")
	}
	// The test now reads only a few other threads. So the files of the first threads are unused and are closed. The
	// files of the threads that the test reads stay open.
	for range 200 {
		for _, b := range all[10:13] {
			tasks.CPU(b.TID)
			tasks.Call(b.TID)
		}
	}
	for _, b := range all[10:13] {
		if files := tasks.tasks[b.TID]; files == nil {
			t.Errorf("files of thread %d are not kept", b.TID)
		}
	}
	tasks.Forget(all[10].TID)
	if tasks.open != 4 || tasks.tasks[all[10].TID] != nil {
		t.Errorf("%d files open after Forget", tasks.open)
	}
}

// TestReusedTID: if a new thread has the TID of an ended thread, ddtop opens the new thread's files. It must not go on
// using the descriptors of the ended thread.
func TestReusedTID(t *testing.T) {
	cmd, all := startBlocker(t, nil)
	tasks, _ := openTasks(t, os.Getpid())
	tid := make(chan int32)
	stop := make(chan bool)
	start := func() int32 {
		go func() {
			runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
			tid <- int32(unix.Gettid())
			<-stop
		}()
		return <-tid
	}
	own := start()
	if own == int32(os.Getpid()) { // the first thread of a process outlives its goroutine
		own = start()
	}
	if _, err := tasks.CPU(own); err != nil {
		t.Fatal(err)
	}
	close(stop)
	until(t, "the thread to be gone", func() bool {
		_, err := tasks.CPU(own)
		return errors.Is(err, ErrGone)
	})
	if tasks.tasks[own] != nil {
		t.Error("the ended thread's files are kept")
	}
	// The test gives another living thread the same TID. ddtop must replace the open file of the ended thread.
	other, _ := openTasks(t, cmd.Process.Pid)
	if _, err := other.CPU(all[0].TID); err != nil {
		t.Fatal(err)
	}
	closeFD(other.tasks[all[0].TID][fileSchedstat].fd)
	gone, err := openAt(tasks.dir, "task/"+fmt.Sprint(unix.Gettid())+"/schedstat")
	if err != nil {
		t.Fatal(err)
	}
	other.tasks[all[0].TID][fileSchedstat].fd = gone
	if _, err := other.CPU(all[0].TID); err != nil {
		t.Error(err)
	}
}

func TestDenied(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	cmd, _ := startBlocker(t, nil)
	_, out := startHelper(t, "denied", nil, fmt.Sprint(cmd.Process.Pid))
	var got map[string]string
	if err := json.NewDecoder(out).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got["open"] != "<nil>" || got["cpu"] != "<nil>" || got["denied"] != "true" {
		t.Errorf("as another user: %v", got)
	}
}

// TestSteadyStateAllocatesNothing: when ddtop reads the same files of the kernel again, it allocates no memory.
// Otherwise each sample would make garbage.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	cmd, all := startBlocker(t, nil)
	tasks, _ := openTasks(t, cmd.Process.Pid)
	for _, b := range all {
		if b.Pending || b.Call == "waitid" || b.Call == "connect" {
			continue // the result for these calls is read again each time
		}
		var call Call
		until(t, b.Call, func() bool { call, _ = tasks.Call(b.TID); return call.Name == b.Call })
		var k sampler.Kernel
		n := testing.AllocsPerRun(50, func() {
			tasks.CPU(b.TID)
			tasks.State(b.TID)
			tasks.Call(b.TID)
			tasks.Describe(&k, call, nil)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", b.Case, n)
		}
	}
}

// benchTasks returns the thread of the helper for the case with the given name, and the system call in which this
// thread blocks.
func benchTasks(b *testing.B, name string) (*Tasks, int32, Call, attach.Memory) {
	cmd, all := startBlocker(b, nil)
	tasks, _ := openTasks(b, cmd.Process.Pid)
	for _, x := range all {
		if x.Case == name {
			var call Call
			until(b, x.Call, func() bool { call, _ = tasks.Call(x.TID); return call.Name == x.Call })
			return tasks, x.TID, call, &processMemory{cmd.Process.Pid}
		}
	}
	b.Fatalf("no case %s", name)
	return nil, 0, Call{}, nil
}

func BenchmarkCPU(b *testing.B) {
	tasks, tid, _, _ := benchTasks(b, "tcp")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tasks.CPU(tid); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCPUNotKept(b *testing.B) {
	tasks, tid, _, _ := benchTasks(b, "tcp")
	tasks.Forget(tid)
	tasks.maxOpen = 0
	for b.Loop() {
		if _, err := tasks.CPU(tid); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	tasks, tid, _, _ := benchTasks(b, "tcp")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tasks.Call(tid); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkState(b *testing.B) {
	tasks, tid, _, _ := benchTasks(b, "tcp")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tasks.State(tid); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDescribe(b *testing.B) {
	for _, name := range []string{"tcp", "pipe", "poll", "pselect6", "connect", "futex"} {
		b.Run(name, func(b *testing.B) {
			tasks, _, call, mem := benchTasks(b, name)
			b.ReportAllocs()
			var k sampler.Kernel
			for b.Loop() {
				tasks.Describe(&k, call, mem)
			}
		})
	}
}

// BenchmarkFirstSight measures how long it takes to find the ends of a socket that ddtop has not seen before.
func BenchmarkFirstSight(b *testing.B) {
	tasks, _, call, _ := benchTasks(b, "tcp")
	var k sampler.Kernel
	for b.Loop() {
		clear(tasks.peers.byFD)
		tasks.Describe(&k, call, nil)
	}
}

func BenchmarkSocketTables(b *testing.B) {
	tasks, _, _, _ := benchTasks(b, "tcp")
	now := int64(1)
	for b.Loop() {
		tasks.peers.wanted[1] = struct{}{}
		now += int64(time.Hour)
		if _, err := tasks.ResolveSockets(b.Context(), now); err != nil {
			b.Fatal(err)
		}
	}
}
