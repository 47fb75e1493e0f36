// Package nativelock finds the locks of C code that threads wait for, and who holds them
// (docs/reference/native.md#locks-of-c-code).
package nativelock

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/native"
)

// maxThreads is the largest number of threads that are read in one round.
const maxThreads = 4096

// Reader finds the locks of C code that threads of a process wait for. It is for one goroutine.
type Reader struct {
	proc   *attach.Process
	tasks  *kernel.Tasks
	spaces *kernel.Namespace
	space  *native.Space
	// registers reads the registers of threads, to unwind their stacks.
	registers *cstacks.Registers
	// seen maps addresses to the locks that threads waited for in the last round.
	seen map[uint64]*awaited
	// parent is the process that forked this one. Its libraries are at the same addresses as this process's. parent is
	// nil if there is no such process, or if it has ended.
	parent *attach.Process
}

// awaited is a lock that threads wait for.
type awaited struct {
	// waiters are the threads that wait for the lock. The value is the moment since which a thread has not run.
	waiters map[int32]native.Moment
	// outside are threads that cannot hold the lock. Since the waiters began to wait, each of these threads was seen to
	// wait itself, or to run code outside the lock's library.
	outside map[int32]bool
	// inside are threads that were in the lock function of the lock's library in the last round, but did not wait. One
	// of them may hold the lock.
	inside []int32
	where  native.LockWait
}

// New opens a Reader. vmPath is the file that contains Ruby's VM. machine is the process's machine, such as "x86_64".
func New(proc *attach.Process, vmPath, machine string) (*Reader, error) {
	r := &Reader{proc: proc, seen: make(map[uint64]*awaited)}
	if err := r.open(machine); err != nil {
		r.Close()
		return nil, err
	}
	r.parent = forkedBy(proc, vmPath)
	return r, nil
}

// open opens what a Reader reads from, except the parent.
func (r *Reader) open(machine string) (err error) {
	if r.tasks, err = kernel.OpenTasks(r.proc.PID(), sampler.NewDictionary()); err != nil {
		return err
	}
	r.registers = cstacks.NewRegisters(r.proc.PID(), r.tasks)
	if r.spaces, err = kernel.OpenNamespace(r.proc.PID()); err != nil {
		return err
	}
	if machine == "x86_64" {
		r.space, err = native.NewSpace(r.proc)
	}
	return err
}

// forkedBy returns the process that forked the given one. It returns nil if there is none, or if it has ended. In the
// second case the kernel has given the child another parent, such as init. forkedBy recognizes such a parent because
// its libruby is not at the same address.
func forkedBy(proc *attach.Process, vmPath string) *attach.Process {
	if !proc.Forked() || proc.Parent() <= 1 {
		return nil
	}
	parent, err := attach.Open(proc.Parent())
	if err != nil {
		return nil
	}
	start := func(p *attach.Process) (at attach.Address, err error) {
		mappings, err := p.Maps()
		i := slices.IndexFunc(mappings, func(m attach.Mapping) bool { return m.Path == vmPath && m.Exec })
		if i < 0 {
			return 0, errors.Join(err, attach.ErrNotLoaded)
		}
		return mappings[i].Start, nil
	}
	own, err1 := start(proc)
	its, err2 := start(parent)
	if err1 != nil || err2 != nil || own != its {
		parent.Close()
		return nil
	}
	return parent
}

// Close closes what a Reader has opened. The process stays open.
func (r *Reader) Close() {
	if r.tasks != nil {
		r.registers.Close()
		r.tasks.Close()
	}
	if r.spaces != nil {
		r.spaces.Close()
	}
	if r.space != nil {
		r.space.Close()
	}
	if r.parent != nil {
		r.parent.Close()
	}
}

// Round reads once what each thread waits for.
func (r *Reader) Round(ctx context.Context) error {
	tids, err := r.tasks.List()
	if err != nil {
		return err
	}
	if r.space != nil {
		r.registers.Round()
		if err := r.space.Refresh(); err != nil {
			return err
		}
	}
	tids = tids[:min(len(tids), maxThreads)]
	now := make(map[uint64]map[int32]native.Moment)
	for _, tid := range tids {
		if at, moment, ok := r.waitsAt(tid); ok && ctx.Err() == nil {
			if now[at] == nil {
				now[at] = make(map[int32]native.Moment)
			}
			now[at][tid] = moment
		}
	}
	for at := range r.seen {
		if now[at] == nil {
			delete(r.seen, at)
		}
	}
	for at, waiters := range now {
		lock := r.seen[at]
		// If a thread that waited has run since the last round, the lock may have been released meanwhile. So drop the
		// facts about the lock and collect new ones.
		if lock == nil || !contains(waiters, lock.waiters) {
			if len(r.seen) >= sampler.MaxNativeLocks && lock == nil {
				continue
			}
			lock = &awaited{outside: make(map[int32]bool)}
			r.seen[at] = lock
		}
		lock.waiters, lock.inside = waiters, nil
		if lock.where == (native.LockWait{}) {
			for tid := range waiters {
				if frames, _, ok := r.stack(tid); ok && len(frames) > 0 {
					lock.where = native.WaitsFor(frames)
					break
				}
			}
		}
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(r.seen)), func(l *awaited) bool { return l.where.LowLevel }) {
		return nil
	}
	for _, tid := range tids {
		if ctx.Err() == nil {
			r.findOutside(tid)
		}
	}
	return nil
}

// contains reports whether all threads that waited for a lock before still wait for it, and have not run since.
func contains(now, before map[int32]native.Moment) bool {
	for tid, moment := range before {
		if now[tid] != moment {
			return false
		}
	}
	return true
}

// stands returns the moment since which a thread has not run. ok is false if the thread runs, or cannot be read.
func (r *Reader) stands(tid int32) (at native.Moment, ok bool) {
	x, ok, err := r.tasks.Standing(tid)
	return native.Moment{Turns: x.Turns, Call: x.Line}, ok && err == nil
}

// waitsAt returns the address of the lock that a thread waits for.
func (r *Reader) waitsAt(tid int32) (at uint64, moment native.Moment, ok bool) {
	before, stands := r.stands(tid)
	if !stands {
		return 0, moment, false
	}
	call, err := r.tasks.Call(tid)
	if err != nil || !call.AwaitsLock() {
		return 0, moment, false
	}
	after, stands := r.stands(tid)
	return call.Args[0], before, stands && before == after
}

// stack returns the whole native stack of a thread. ok is false if the thread runs, or ran during the reading.
func (r *Reader) stack(tid int32) (frames []sampler.NativeFrame, stopped error, ok bool) {
	if r.space == nil {
		return nil, nil, false
	}
	regs, at, stands, err := r.registers.Registers(tid)
	if err != nil || !stands {
		return nil, nil, false
	}
	stack := r.space.Unwind(regs)
	if stays, err := r.registers.Stays(tid, at); err != nil || !stays {
		return nil, nil, false
	}
	return r.space.Names(stack.Frames), stack.Stopped, true
}

// findOutside checks a thread against each lock that other threads wait for. If the thread waits itself, or runs code
// outside the lock's library, findOutside notes that it cannot hold the lock. If the thread is in the function that
// locks, findOutside notes this, too.
func (r *Reader) findOutside(tid int32) {
	var frames []sampler.NativeFrame
	var stopped error
	for _, lock := range r.seen {
		if _, waits := lock.waiters[tid]; waits {
			lock.outside[tid] = true // a waiting thread can release nothing
		}
		if !lock.where.LowLevel || lock.outside[tid] {
			continue
		}
		if frames == nil {
			var ok bool
			if frames, stopped, ok = r.stack(tid); !ok || len(frames) == 0 {
				return
			}
		}
		if lock.outside[tid] = !native.MayHold(frames, stopped, lock.where.Path); !lock.outside[tid] &&
			lock.where.In(frames) {
			lock.inside = append(lock.inside, tid)
		}
	}
}

// Judge returns the locks that threads wait for, with their holders. id returns Ruby's thread of a TID, or zero.
// undecided is true if another round may show more.
func (r *Reader) Judge(id func(tid int32) sampler.ThreadID) (list []sampler.NativeLock, undecided bool) {
	tids, err := r.tasks.List()
	if err != nil {
		return nil, false
	}
	for _, at := range slices.Sorted(maps.Keys(r.seen)) {
		lock := r.seen[at]
		out := sampler.NativeLock{Address: at, Function: lock.where.Function, Library: lock.where.Library}
		for _, tid := range slices.Sorted(maps.Keys(lock.waiters)) {
			if x := id(tid); x == 0 || len(out.Waiters) >= sampler.MaxLockWaiters {
				out.Others++
			} else {
				out.Waiters = append(out.Waiters, x)
			}
		}
		if owner, ok := kernel.MutexOwner(r.proc, at); ok && !lock.where.LowLevel {
			r.owned(&out, owner, id)
		} else if lock.where.LowLevel {
			free := len(tids) <= maxThreads &&
				!slices.ContainsFunc(tids, func(tid int32) bool { return !lock.outside[tid] })
			if free {
				out.State = sampler.LockLost
				r.inherited(&out, r.parent != nil)
			} else {
				undecided = true
				if len(lock.inside) == 1 {
					out.Holder = id(lock.inside[0])
				}
			}
		}
		// If a waiter has stopped waiting since the round, the memory may now belong to another lock. Then it is not
		// certain that the lock is lost, so its state is unknown.
		if out.Lost() && !r.stillWaits(at, lock) {
			out.State, out.FromPID, out.Owner, undecided = sampler.LockUnknown, 0, 0, true
		}
		list = append(list, out)
	}
	return list, undecided
}

func (r *Reader) stillWaits(at uint64, lock *awaited) bool {
	for tid, moment := range lock.waiters {
		if again, now, ok := r.waitsAt(tid); !ok || again != at || now != moment {
			return false
		}
	}
	return kernel.LockAwaited(r.proc, at)
}

// owned sets the state and the holder of a mutex in out. owner is the TID that the mutex itself has in its memory as
// its owner.
func (r *Reader) owned(out *sampler.NativeLock, owner int32, id func(tid int32) sampler.ThreadID) {
	has, known := r.spaces.Has(owner)
	again, ok := kernel.MutexOwner(r.proc, out.Address)
	if !known || !ok || again != owner {
		return
	}
	if out.Owner = owner; has {
		out.State = sampler.LockHeld
		if host, ok := r.spaces.Host(owner); ok {
			out.Holder = id(host)
		}
		return
	}
	out.State = sampler.LockLost
	r.inherited(out, r.parent != nil && parentHas(r.parent, owner))
}

func (r *Reader) inherited(out *sampler.NativeLock, by bool) {
	if by {
		out.State, out.FromPID = sampler.LockInherited, int32(r.parent.PID())
	}
}

// parentHas reports whether the process parent has a thread with this TID, which comes from the memory of a child.
// Usually parent and child are in the same PID namespace. If the child is in a new namespace, the TIDs of the parent
// have no meaning in the child. The result is then false.
func parentHas(parent *attach.Process, tid int32) bool {
	spaces, err := kernel.OpenNamespace(parent.PID())
	if err != nil {
		return false
	}
	defer spaces.Close()
	has, known := spaces.Has(tid)
	return has && known
}
