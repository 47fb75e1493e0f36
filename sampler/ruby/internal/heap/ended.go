package heap

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// threadKilled is the status of a thread that has ended (THREAD_KILLED of vm_core.h, 2.5 to 4.0).
const threadKilled = 3

// Ended reports whether the thread at th has ended, although its Thread object self still exists. If it has, ec is the
// address of its execution context. Call it in a function that Read calls.
func (o *Objects) Ended(self uint64, th attach.Address) (ec attach.Address, ended bool, err error) {
	header, err := o.dataHeader(self, "Thread")
	if err != nil {
		return 0, false, err
	}
	if name, err := o.dataTypeName(self); err != nil || name != "VM/thread" || o.places.Data(attach.Address(self), header) != th {
		return 0, false, err
	}
	killed, err := o.killed(th)
	word, errEC := o.View.Word(th + attach.Address(o.places.threadEC))
	return attach.Address(word), killed, view.Worst(err, errEC)
}

// killed reports whether the status of the thread at th says that it has ended.
func (o *values) killed(th attach.Address) (bool, error) {
	f := o.places.threadStatus
	b, err := o.View.Bytes(th, f.Offset+f.Size)
	return err == nil && f.In(b) == threadKilled, err
}
