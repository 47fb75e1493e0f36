package safefile

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights are the rights of the process that named a file, such as the target. ddtop opens the file with these rights.
// Otherwise a hostile process could make ddtop read files that the process itself may not read.
type Rights struct {
	// UID and GID are the process's ids for access to files (fsuid, fsgid), and Groups its other groups. All of them
	// are ids in ddtop's user namespace.
	UID, GID int
	Groups   []int
	// Capabilities are the effective capabilities of the process (CapEff of /proc/PID/status). They are zero if the
	// process is in another user namespace, because its capabilities there give it no right to files of ddtop's
	// namespace.
	Capabilities uint64
}

// errRights means that the kernel does not let ddtop switch to the rights of a process.
var errRights = errors.New("taking the rights of its user is not allowed")

// readers are the capabilities with which a process can read files whatever their mode (capabilities(7)).
const readers = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH

// do calls f with the rights r, or with ddtop's own rights if r is nil. During the call, the current thread has the
// rights r. If ddtop's own rights cannot be restored afterwards, the thread stays locked to the goroutine and ends with
// it.
func (r *Rights) do(f func() error) error {
	if r == nil {
		return f()
	}
	runtime.LockOSThread()
	giveBack, err := r.take()
	if err == nil {
		err = f()
	}
	if back := giveBack(); back != nil {
		return errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return err
}

// threadRights are the rights of one thread to files. In the kernel, each thread has rights of its own. The functions
// of the C library and of Go's package syscall change the rights of all threads. So ddtop makes the system calls
// itself.
type threadRights struct {
	uid, gid int
	groups   []int
	caps     [2]unix.CapUserData
}

func currentRights() (t threadRights, err error) {
	const ask = ^uintptr(0) // an impossible id changes nothing, and returns the current id (setfsuid(2))
	uid, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ask, 0, 0)
	gid, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, ask, 0, 0)
	t.uid, t.gid = int(int32(uid)), int(int32(gid))
	if t.groups, err = unix.Getgroups(); err != nil {
		return t, fmt.Errorf("asking for our groups: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &t.caps[0]); err != nil {
		return t, fmt.Errorf("asking for our capabilities: %w", err)
	}
	return t, nil
}

// take switches the current thread to the rights r. giveBack restores the thread's old rights, and must be called even
// after an error.
func (r *Rights) take() (giveBack func() error, err error) {
	before, err := currentRights()
	if err != nil {
		return func() error { return nil }, err
	}
	giveBack = func() error { return before.set() }
	want := before
	want.uid, want.gid, want.groups = r.UID, r.GID, r.Groups
	effective := uint64(before.caps[0].Effective) | uint64(before.caps[1].Effective)<<32
	permitted := uint64(before.caps[0].Permitted) | uint64(before.caps[1].Permitted)<<32
	effective = effective&^readers | readers&r.Capabilities&permitted
	want.caps[0].Effective, want.caps[1].Effective = uint32(effective), uint32(effective>>32)
	return giveBack, want.set()
}

// set switches the current thread to these rights, and checks that it now has them.
func (t *threadRights) set() error {
	now, err := currentRights()
	if err != nil {
		return err
	}
	if now.equal(t) {
		return nil
	}
	// Set the capabilities last, because a change of the ids also changes the capabilities.
	if !sameGroups(now.groups, t.groups) {
		list := make([]uint32, len(t.groups)+1) // one element more, so that an empty list has an address
		for i, g := range t.groups {
			list[i] = uint32(g)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(t.groups)), uintptr(unsafe.Pointer(&list[0])), 0); errno != 0 {
			return fmt.Errorf("%w: setgroups: %w", errRights, errno)
		}
	}
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(t.gid), 0, 0)
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(t.uid), 0, 0)
	header, caps := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, t.caps
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return fmt.Errorf("%w: capset: %w", errRights, err)
	}
	if now, err = currentRights(); err != nil {
		return err
	}
	if !now.equal(t) {
		return fmt.Errorf("%w: setfsuid to %d, setfsgid to %d", errRights, t.uid, t.gid)
	}
	return nil
}

func (t *threadRights) equal(o *threadRights) bool {
	return t.uid == o.uid && t.gid == o.gid && sameGroups(t.groups, o.groups) && t.caps == o.caps
}

func sameGroups(a, b []int) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// may reports whether a file's mode allows a process with the rights r to read (4) or search (1). ddtop calls it only
// if the kernel does not let ddtop switch to these rights, so that the kernel itself cannot decide. may ignores access
// lists, which can allow less than the mode.
func (r *Rights) may(st *unix.Stat_t, right uint32) bool {
	switch {
	case r == nil || r.Capabilities&readers != 0:
		return true
	case int(st.Uid) == r.UID:
		right <<= 6
	case int(st.Gid) == r.GID || slices.Contains(r.Groups, int(st.Gid)):
		right <<= 3
	}
	return st.Mode&right != 0
}
