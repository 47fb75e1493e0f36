package sampler

import (
	"reflect"
	"testing"
)

// TestNativeStayIsOfOneStay: a native stack is valid only until the thread runs again. It is not returned if the thread
// has got a CPU since the reading, or if its Ruby stack has changed.
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
	s.Native = nil // a recording has no native state
	s.Native.Want(1, 0)
	if _, ok := s.NativeStay(1); ok {
		t.Error("a stack of a recording")
	}
}

// TestNativeStackOfDictionary: a native stack that was put into a Dictionary comes out with the same content. The
// content consists of the C functions, the reason why some are missing, and a text about what the kernel does. A stack
// can also have nothing but this text.
func TestNativeStackOfDictionary(t *testing.T) {
	d := NewDictionary()
	ruby := d.InternStack(0, d.InternFrame(Frame{Label: "IO#fsync", C: true}))
	frames := []NativeFrame{{Name: "fsync", Library: "libc", Path: "/lib/libc.so.6", Offset: 0x20, Function: 0x10},
		{Library: "libruby", Path: "/lib/libruby.so", Offset: 0x40, Function: 0x30}}
	for _, want := range []NativeStack{
		{Frames: frames}, {Frames: frames, Kernel: "waits for the disk to flush"}, {Kernel: "waits for the disk to flush"},
		{Frames: frames[:1], Missing: MissingNative}, {Frames: frames, Kernel: "waits", Missing: MissingNative},
	} {
		x := Thread{Stack: ruby, Native: d.InternNative(ruby, &want)}
		if got := d.NativeStack(&x); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if id := d.InternNative(ruby, &NativeStack{Missing: "it moves"}); id != 0 {
		t.Errorf("stack %d of nothing", id)
	}
}
