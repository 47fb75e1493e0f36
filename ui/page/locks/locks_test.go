package locks

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestNoPlaceIsSelectedByItself: the row of a place without a stack must not have the key that means "no selection".
// Otherwise it would be selected although the user has not moved the cursor there.
func TestNoPlaceIsSelectedByItself(t *testing.T) {
	p := New(new(widget.Parts))
	for _, b := range []flamegraph.PlaceSum{{Place: flamegraph.Place{Method: "Order#total"}, NS: 2}, {NS: 1}} {
		row := placeRow{&b}
		p.ByPlace.Rows, p.Both.Rows = append(p.ByPlace.Rows, row), append(p.Both.Rows, row.ID())
	}
	if i := p.ByPlace.Index(); i != -1 {
		t.Errorf("row %d is selected", i)
	}
	p.move(nil, widget.Step{Rows: scene.MaxRows})
	if i := p.ByPlace.Index(); i != 1 {
		t.Errorf("row %d is selected, of the last one", i)
	}
}

// TestKindHasRoomForTheAddress: in a narrow column the kind of a lock is shortened, so that its address still fits.
// Without the address, two ConditionVariables would look the same.
func TestKindHasRoomForTheAddress(t *testing.T) {
	for w, want := range map[int]string{11: "CondVar", 13: "CondVar", 22: "CondVar", 23: "ConditionVariable", 24: "ConditionVariable"} {
		if got := kindIn("ConditionVariable", w); got != want {
			t.Errorf("in %d columns: %q, want %q", w, got, want)
		}
	}
	if got := kindIn("Mutex", 10); got != "Mutex" {
		t.Errorf("Mutex is %q", got)
	}
}

// TestOneIdleThread: the text about idle threads uses the singular for one thread, and the plural for several.
func TestOneIdleThread(t *testing.T) {
	for n, want := range map[int]string{1: "1 idle thread waits for work here", 3: "3 idle threads wait for work here"} {
		row := lockRow{Contended: &account.Contended{Waiters: make([]sampler.ThreadID, n)}}
		if got, _ := holderText(row, new(scene.Scene)); got != want {
			t.Errorf("%d threads: %q", n, got)
		}
	}
}

// TestThreadsThatWaitAtWork: some threads that wait at a queue must not be called idle. They wait for room in a full
// queue, or they wait during a request.
func TestThreadsThatWaitAtWork(t *testing.T) {
	d := sampler.NewDictionary()
	pushes := d.InternStack(0, d.InternFrame(sampler.Frame{Label: "Thread::SizedQueue#push", C: true}))
	pops := d.InternStack(0, d.InternFrame(sampler.Frame{Label: "Thread::SizedQueue#pop", C: true}))
	for _, c := range []struct {
		stack sampler.StackID
		work  sampler.WorkID
		want  string
	}{
		{pushes, 7, "2 threads wait for room: it is full"},
		{pops, 0, "2 idle threads wait for work here"},
		{pops, 7, "1 thread waits in a request or job"},
	} {
		sc := &scene.Scene{Dict: d, States: []gvl.ThreadState{{Thread: 1, Stack: c.stack}, {Thread: 2, Stack: c.stack}},
			Moment: &sampler.Sample{Threads: []sampler.Thread{{ID: 2, Serving: sampler.Serving{Work: c.work}}, {ID: 3, Serving: sampler.Serving{Work: 9}}}}}
		row := lockRow{Contended: &account.Contended{Kind: "SizedQueue", Waiters: []sampler.ThreadID{1, 2}}}
		if got, _ := holderText(row, sc); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestTakenAt: if only one frame of the holder's stack takes a lock of this kind, the lock was taken there. If two
// frames do, the place is unknown.
func TestTakenAt(t *testing.T) {
	d := sampler.NewDictionary()
	stack := func(labels ...string) sampler.StackID { // labels begin with the outermost frame
		var frames []sampler.FrameID
		for _, l := range labels {
			f := sampler.Frame{Label: l, Path: l + ".rb"}
			if strings.Contains(l, "#") {
				f.C, f.Path = true, ""
			}
			frames = append([]sampler.FrameID{d.InternFrame(f)}, frames...)
		}
		return d.InternStackOf(frames)
	}
	for _, c := range []struct {
		stack sampler.StackID
		kind  string
		waits bool
		want  string
	}{
		{stack("main", "Thread::Mutex#synchronize", "inside"), "Mutex", false, "main"},
		{stack("main", "Thread::Mutex#synchronize", "inside"), "Monitor", false, ""},
		{stack("main", "Monitor#synchronize", "inside", "Thread::Mutex#lock", "deep"), "Monitor", false, "main"},
		{stack("main", "Monitor#synchronize", "inside", "Thread::Mutex#lock", "deep"), "Mutex", false, "inside"},
		{stack("main", "Thread::Mutex#synchronize", "inside", "Mutex#lock", "deep"), "Mutex", false, ""},
		{stack("main", "Thread::Mutex#synchronize", "inside", "Thread::Mutex#lock"), "Mutex", true, "main"},
		{stack("main"), "Mutex", false, ""},
	} {
		if got := takenAt(d, c.stack, c.kind, c.waits); got.label != c.want {
			t.Errorf("%s by %s: taken at %q, want %q", c.kind, strings.Join(labels(d, c.stack), " → "), got.label, c.want)
		}
	}
}

// TestLockCall: the place of a lock is the code that takes it: the innermost frame of the program's own code. If there
// is no such code, it is the innermost frame of a gem. If there is no gem either, it is the innermost frame of the
// standard library.
func TestLockCall(t *testing.T) {
	d := sampler.NewDictionary()
	frame := func(label string, of sampler.Origin) sampler.FrameID {
		return d.InternFrame(sampler.Frame{Label: label, Path: "/" + label + ".rb", Origin: of})
	}
	lib, gem, outer, own := frame("mon_synchronize", sampler.OriginStdlib), frame("exec", sampler.OriginGem),
		frame("select_all", sampler.OriginGem), frame("Order#show", sampler.OriginApp)
	for _, c := range []struct {
		frames []sampler.FrameID
		want   string
	}{
		{[]sampler.FrameID{lib, gem, outer, own}, "Order#show"},
		{[]sampler.FrameID{lib, gem, outer}, "exec"},
		{[]sampler.FrameID{lib}, "mon_synchronize"},
		{nil, ""},
	} {
		if got := callOf(d, c.frames).label; got != c.want {
			t.Errorf("%d frames: %q, want %q", len(c.frames), got, c.want)
		}
	}
}

func labels(d *sampler.Dictionary, stack sampler.StackID) (out []string) {
	for _, id := range slices.Backward(d.Frames(stack, nil)) {
		out = append(out, d.Frame(id).Label)
	}
	return out
}
