package sampler

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestCutName: CutName shortens a name only between two characters, even if a character has several bytes. The
// shortened name ends with a mark. Name and mark together never exceed the limit.
func TestCutName(t *testing.T) {
	for _, c := range []string{"a", "é", "…", "😀", "\xff"} {
		for short := range 5 {
			s := strings.Repeat("x", short) + strings.Repeat(c, 2*MaxNameBytes/len(c))
			got := CutName(s)
			body, marked := strings.CutSuffix(got, CutMark)
			if !marked || len(got) > MaxNameBytes || len(got) <= MaxNameBytes-utf8.UTFMax-len(CutMark) || !strings.HasPrefix(s, body) {
				t.Errorf("%q…: %d bytes, of which the end is %q", c, len(got), got[len(got)-8:])
			}
			if utf8.ValidString(s) && !utf8.ValidString(got) {
				t.Errorf("%q…: cut within a character: %q", c, got[len(got)-8:])
			}
		}
	}
	for _, s := range []string{"", "x", strings.Repeat("x", MaxNameBytes)} {
		if CutName(s) != s {
			t.Errorf("%d bytes were cut", len(s))
		}
	}
}

// heap returns the memory in use on the heap.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestDictionaryIsBounded: a program makes names, stacks, peers and threads without end, and some names have the
// greatest length. The Dictionary must not take more memory than its limit. It counts and marks entries for which there
// is no room. Earlier IDs keep their meaning. When no sample in the history needs the old entries, there is room again.
func TestDictionaryIsBounded(t *testing.T) {
	for name, make := range map[string]func(d *Dictionary, i int){
		"long names": func(d *Dictionary, i int) {
			long := fmt.Sprint(i, strings.Repeat("y", 64<<10))
			d.InternStack(0, d.InternFrame(Frame{Label: long, Name: long, Path: long, AbsolutePath: long, Gem: long}))
		},
		"frames": func(d *Dictionary, i int) { d.InternFrame(Frame{Label: "x", Line: int32(i)}) },
		"stacks": func(d *Dictionary, i int) { d.InternStack(StackID(i%100), FrameID(i)) },
		"peers":  func(d *Dictionary, i int) { d.InternPeer(Peer{Path: fmt.Sprint(strings.Repeat("p", 500), i)}) },
		"threads": func(d *Dictionary, i int) {
			d.SetThread(ThreadInfo{ID: ThreadID(i), Name: fmt.Sprint(strings.Repeat("t", 9000), i), GoneNS: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			d := NewDictionary()
			d.maxBytes = MaxDictionaryBytes / 4
			first := d.InternFrame(Frame{Label: "first"})
			stack := d.InternStack(0, first)
			for i := 1; d.LeftOut() < 20_000; i++ {
				make(d, i)
				if i > 10_000_000 {
					t.Fatalf("%d bytes after %d", d.Bytes(), i)
				}
			}
			const spare = 1 << 20 // room for the frame and stack that replace left-out entries, and for their pages
			got := heap() - before
			if d.Bytes() > d.maxBytes+spare || got > d.Bytes()*5/4+spare {
				t.Errorf("%d bytes by its own account, %d on the heap, of %d", d.Bytes(), got, d.maxBytes)
			}
			if got < d.maxBytes/4 {
				t.Errorf("%d bytes on the heap when it was full: its account of %d is far off", got, d.maxBytes)
			}
			long := strings.Repeat("z", 64<<10)
			left := d.InternFrame(Frame{Label: long, Name: long, Path: long, AbsolutePath: long, Gem: long})
			of := d.InternStack(stack, left)
			if d.Frame(left).Label != leftOutLabel || d.Depth(of) != 1 && d.Depth(of) != 2 {
				t.Errorf("%.20q in a stack of %d for a frame without room", d.Frame(left).Label, d.Depth(of))
			}
			if d.Frame(first).Label != "first" || d.Depth(stack) != 1 {
				t.Error("what was there before means something else")
			}
			k := NewKeeper(d, 1e9)
			for at := int64(1e9); at < 20*keeperTurnNS; at += keeperTurnNS {
				k.Feed(&Sample{TimeNS: at, Threads: []Thread{{ID: 1, Stack: stack}}}, false)
			}
			if id := d.InternFrame(Frame{Label: "later"}); d.Frame(id).Label != "later" || d.Frame(first).Label != "first" {
				t.Errorf("%.20q after the history has moved on", d.Frame(id).Label)
			}
			if d.Bytes() < 0 || d.Bytes() > spare {
				t.Errorf("%d bytes are charged for three entries", d.Bytes())
			}
			runtime.KeepAlive(d)
		})
	}
}

// TestLeftOutStack: some frames of a thread were refused because there is no room. Its stack then has only the frame
// leftOutLabel. The stack must not show the callers of a missing frame.
func TestLeftOutStack(t *testing.T) {
	d := NewDictionary()
	known := d.InternFrame(Frame{Label: "known"})
	d.maxBytes = d.Bytes()
	id := d.InternStackOf([]FrameID{known, known, known})
	frames := d.Frames(id, nil)
	if len(frames) != 1 || d.Frame(frames[0]).Label != leftOutLabel || d.LeftOut() != 1 {
		t.Errorf("%d frames, %d left out", len(frames), d.LeftOut())
	}
	if again := d.InternStack(id, known); again != id {
		t.Errorf("stack %d on top of %d", again, id)
	}
}
