package work

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// TestLives: a frame counts as running while the thread's innermost frame is this frame, or a frame further inward. The
// frames of a thread that has ended stay in memory, but must not count as running.
func TestLives(t *testing.T) {
	f := liveFrame{at: 0x7000, leads: []Lead{{At: 0x100, Says: 0x200}}}
	for _, c := range []struct {
		what            string
		innermost, lead attach.Address
		want            bool
	}{
		{"it runs", 0x7000, 0x200, true},
		{"it has called another one", 0x6fc0, 0x200, true},
		{"it has returned", 0x7040, 0x200, false},
		{"its thread has ended", 0, 0x200, false},
		{"another thread is there", 0x7000, 0x300, false},
	} {
		l := frameLook{leads: binary.LittleEndian.AppendUint64(nil, uint64(c.lead))}
		binary.LittleEndian.PutUint64(l.innermost[:], uint64(c.innermost))
		if got := f.lives(&l); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
