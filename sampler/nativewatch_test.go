package sampler

import "testing"

// TestNativeStayIsOfOneStay: a native stack is not shown of a thread that has had a CPU since, or has another Ruby
// stack.
func TestNativeStayIsOfOneStay(t *testing.T) {
	w := new(NativeWatch)
	w.Want(1, 100)
	w.Want(2, 100)
	w.Keep(1, &NativeStay{Stack: 7, Turns: 3, NativeStack: NativeStack{Frames: []NativeFrame{{Name: "poll"}}}})
	s := &Sample{Native: w, Threads: []Thread{{ID: 1, Stack: 7, Kernel: Kernel{Turns: 3}}, {ID: 2, Stack: 7}}}
	if stay, ok := s.NativeStay(1); !ok || stay.Frames[0].Name != "poll" {
		t.Errorf("%+v %v", stay, ok)
	}
	for _, thread := range []Thread{{ID: 1, Stack: 8, Kernel: Kernel{Turns: 3}}, {ID: 1, Stack: 7, Kernel: Kernel{Turns: 4}}} {
		s.Threads[0] = thread
		if stay, ok := s.NativeStay(1); ok {
			t.Errorf("%+v of %+v", stay, thread)
		}
	}
	if _, ok := s.NativeStay(2); ok {
		t.Error("a stack of a thread that has none")
	}
	if n := len(w.AppendWanted(nil, 100+nativeWantedNS)); n != 2 {
		t.Errorf("%d are wanted, not 2", n)
	}
	if n := len(w.AppendWanted(nil, 101+nativeWantedNS)); n != 0 {
		t.Errorf("%d are wanted for ever", n)
	}
	for i := range ThreadID(MaxNativeStays + 9) {
		w.Want(i+1, 0)
	}
	if n := len(w.AppendWanted(nil, 0)); n != MaxNativeStays {
		t.Errorf("%d are wanted", n)
	}
	s.Native = nil // a recording
	s.Native.Want(1, 0)
	if _, ok := s.NativeStay(1); ok {
		t.Error("a stack of a recording")
	}
}
