package scene

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/ui/store"
)

// TestSpan: the moment on the screen always stays within the history. When a frozen picture becomes live again, its
// window gets back the length that it had before.
func TestSpan(t *testing.T) {
	const sec = int64(time.Second)
	s := Span{WindowNS: 30 * sec, KeepNS: 60 * sec, AtNS: 100 * sec}
	if s.Move(-1); s.Frozen {
		t.Error("frozen before the first sample")
	}
	s.OldestNS, s.LastNS = 40*sec, 100*sec
	if s.Move(+1); s.Frozen {
		t.Error("there is nothing after now")
	}
	if s.Move(-1000 * sec); !s.Frozen || s.AtNS != 40*sec+store.ColumnNS {
		t.Errorf("before the history: frozen %v at %d", s.Frozen, s.AtNS)
	}
	s.Show(50*sec, 52*sec)
	if s.AtNS != 52*sec || s.WindowNS != 2*sec {
		t.Errorf("a part of it: %d ns until %d", s.WindowNS, s.AtNS)
	}
	if s.Show(50*sec, 51*sec); s.liveNS != 30*sec {
		t.Errorf("a part of a part leads back to %d", s.liveNS)
	}
	if s.Move(1000 * sec); s.Frozen || s.WindowNS != 30*sec || s.liveNS != 0 {
		t.Errorf("after the history: frozen %v, window %d", s.Frozen, s.WindowNS)
	}
	for range Windows {
		s.Zoom(+1)
	}
	if s.WindowNS != s.KeepNS {
		t.Errorf("more than is kept: %d", s.WindowNS)
	}
}
