package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestLockWithMostWaiters: a lost lock is a lock in C code that no thread can release. If there are several, the
// finding is about the lost lock with the most waiting threads. A lock with a holder is not lost, so the finding is
// never about it.
func TestLockWithMostWaiters(t *testing.T) {
	locks := &sampler.NativeLocks{List: []sampler.NativeLock{
		{Address: 1, State: sampler.LockHeld, Waiters: []sampler.ThreadID{1, 2, 3}},
		{Address: 2, State: sampler.LockLost, Waiters: []sampler.ThreadID{4}},
		{Address: 3, State: sampler.LockInherited, Others: 2},
		{Address: 4, State: sampler.LockUnknown, Others: 9},
	}}
	if got := locks.Lost(); got == nil || got.Address != 3 {
		t.Errorf("%+v", got)
	}
	locks.List = slices.Delete(locks.List, 1, 3)
	if got := locks.Lost(); got != nil {
		t.Errorf("a lock that is not lost: %+v", got)
	}
	if got := (*sampler.NativeLocks)(nil).Lost(); got != nil {
		t.Errorf("no locks: %+v", got)
	}
}
