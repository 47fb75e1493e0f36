package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestFitsLock: a stack can belong to a wait for a lock only if its innermost frame can wait for a lock of this kind.
func TestFitsLock(t *testing.T) {
	d := sampler.NewDictionary()
	for _, c := range []struct {
		inner          []sampler.Frame // innermost first
		mutex, monitor bool
	}{
		{[]sampler.Frame{{Label: "Thread::Mutex#lock", C: true}}, true, false},
		{[]sampler.Frame{{Label: "Mutex#synchronize", C: true}}, true, false},
		{[]sampler.Frame{{Label: "Monitor#synchronize", C: true}}, false, true},
		{[]sampler.Frame{{Label: "Mutex#sleep", C: true}, {Label: "ConditionVariable#wait", C: true}}, true, true},
		{[]sampler.Frame{{Label: "Thread::Mutex#sleep", C: true}}, false, false},
		{[]sampler.Frame{{Label: "IO#write", C: true}}, true, false},
		{[]sampler.Frame{{Label: "Kernel#require", C: true}}, true, false},
		{[]sampler.Frame{{Label: "IO#wait_readable", C: true}}, false, false},
		{[]sampler.Frame{{Label: "Kernel#sleep", C: true}}, false, false},
		{[]sampler.Frame{{Label: "Thread::Queue#pop", C: true}}, false, false},
		{[]sampler.Frame{{Label: "Puma::Client#reset"}, {Label: "Monitor#synchronize", C: true}}, false, false},
	} {
		var ids []sampler.FrameID
		for _, f := range c.inner {
			ids = append(ids, d.InternFrame(f))
		}
		stack := d.InternStackOf(append(ids, d.InternFrame(sampler.Frame{Label: "<main>", Path: "m.rb"})))
		mutex, monitor := FitsLock(d, stack, "Mutex"), FitsLock(d, stack, "Monitor")
		if mutex != c.mutex || monitor != c.monitor {
			t.Errorf("%v fits a Mutex: %v, a Monitor: %v; want %v and %v", c.inner[0].Label, mutex, monitor, c.mutex, c.monitor)
		}
	}
	if FitsLock(d, 0, "Mutex") {
		t.Error("no stack fits a Mutex")
	}
}
