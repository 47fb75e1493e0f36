package report

import (
	"strconv"

	"github.com/ddtop/ddtop/sampler"
)

// DumpNativeLock is a lock in C code, such as a pthread mutex, for which threads wait.
type DumpNativeLock struct {
	Address string `json:"address"`
	// Function is the C function that waits for the lock. Library is the short name of the function's file. Each is
	// null if it is not known.
	Function *string `json:"function"`
	Library  *string `json:"library"`
	// State says what is known about the holder of the lock. It is one of the words held, lost, inherited and unknown.
	State string `json:"state"`
	// OwnerTID is the ID of the thread that holds the lock, according to the lock's memory, in the target's PID
	// namespace. If this thread is a Ruby thread, Holder is its number. ForkedBy is the process from which the lock was
	// inherited. Each is null if it does not exist.
	OwnerTID *int32            `json:"owner_tid"`
	Holder   *sampler.ThreadID `json:"holder"`
	ForkedBy *int32            `json:"forked_by"`
	// Waiters are the Ruby threads that wait for the lock. OtherWaiters is the number of other native threads that wait
	// for it.
	Waiters      []sampler.ThreadID `json:"waiters"`
	OtherWaiters int32              `json:"other_waiters"`
}

// NewDumpNativeLocks converts locks of C code to their form in a dump. The result is never nil.
func NewDumpNativeLocks(n *sampler.NativeLocks) []DumpNativeLock {
	out := []DumpNativeLock{}
	if n == nil {
		return out
	}
	for i := range n.List {
		l := &n.List[i]
		out = append(out, DumpNativeLock{Address: "0x" + strconv.FormatUint(l.Address, 16), Function: TextOrNil(l.Function),
			Library: TextOrNil(l.Library), State: l.State.String(), OwnerTID: nonZero(l.Owner),
			Holder: nonZero(l.Holder), ForkedBy: nonZero(l.FromPID),
			Waiters: append([]sampler.ThreadID{}, l.Waiters...), OtherWaiters: l.Others})
	}
	return out
}

func nonZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
