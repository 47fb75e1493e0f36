package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// locked returns a thread that waits for a lock that another thread holds.
func locked(id, holder sampler.ThreadID, object uint64) sampler.Thread {
	th := gvltest.Asleep(id, sampler.StoppedForever, sampler.BlockMutex)
	th.Blocked.Object, th.Blocked.Holder = object, holder
	return th
}

// loadingAt returns a stack of a thread that is loading a file. calls are the frames of the code that the file calls.
func (s *scene) loadingAt(file string, calls ...sampler.Frame) sampler.StackID {
	var ids []sampler.FrameID
	for _, f := range append(calls,
		sampler.Frame{Label: "<top (required)>", Path: "/app/" + file, Line: 1},
		sampler.Frame{Label: "Kernel#require", Path: "/app/config.rb", Line: 7, C: true},
		sampler.Frame{Label: "Boot#run", Path: "/app/config.rb", Line: 7}) {
		ids = append(ids, s.dict.InternFrame(f))
	}
	return s.dict.InternStackOf(ids)
}

// TestLoadsInACircle: if two threads each wait for a file that the other one is loading, the finding names the lines of
// both files. If one of them waits for a lock of another kind, the finding is a deadlock.
func TestLoadsInACircle(t *testing.T) {
	require := func(file string) sampler.Frame {
		return sampler.Frame{Label: "Kernel#require", Path: "/app/" + file, Line: 1, C: true}
	}
	for _, c := range []struct {
		second sampler.Frame
		title  string
	}{
		{require("second.rb"), "Loads wait for each other: first.rb:1 ↔ second.rb:1: left waits for Mutex 0x10 held by right"},
		{sampler.Frame{Label: "Thread::Mutex#synchronize", Path: "/app/second.rb", Line: 1, C: true}, "Deadlock: left waits for Mutex 0x10"},
		// An autoload has no frame of its own. So the innermost frame is the code that triggers it by using a constant.
		{sampler.Frame{Label: "<class:Second>", Path: "/app/second.rb", Line: 2}, "Loads wait for each other: first.rb:1 ↔ second.rb:2: "},
	} {
		s := newScene(t)
		s.named(1, "left", false)
		s.named(2, "right", false)
		left, right := s.loadingAt("first.rb", require("first.rb")), s.loadingAt("second.rb", c.second)
		s.play(2*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
			return 0, []sampler.Thread{s.at(locked(1, 2, 0x10), left), s.at(locked(2, 1, 0x20), right)}
		})
		s.want(c.title, []string{"deadlock"}, c.title)
	}
}

// TestLoadWait: there is a finding if a thread waits for seconds until another thread has loaded a file. There is no
// finding for shorter waits, or for waits for other locks.
func TestLoadWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		label string
		waits int64
		found bool
	}{
		{"require", "Kernel#require", 4, true},
		{"require, for a second", "Kernel#require", 1, false},
		{"another lock", "Thread::Mutex#synchronize", 4, false},
	} {
		s := newScene(t)
		s.named(1, "loader", false)
		s.named(2, "web", false)
		loads := s.loadingAt("slow.rb", sampler.Frame{Label: "IO#read", Path: "/app/slow.rb", Line: 1, C: true})
		waits := s.stack("c:"+c.label, "Web#call")
		s.play(c.waits*gvltest.Sec, func(int) (sampler.ThreadID, []sampler.Thread) {
			return 0, []sampler.Thread{s.at(gvltest.Answered(gvltest.Released(1), s.now, "read", 9, 0), loads), s.at(locked(2, 1, 0x10), waits)}
		})
		if got := slices.Contains(s.ids(), "load_wait"); got != c.found {
			t.Errorf("%s: %v", c.name, s.f.Current())
		} else if got {
			s.want(c.name, []string{"load_wait"}, "1 thread waits until a file is loaded, the longest for ",
				"in Web#call", "; loader is loading it, at slow.rb:1, and is waiting for read in ")
		}
	}
}
