package ruby

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

// TestIsMutex: isMutex accepts a mutex of glibc and of musl in all its states. It rejects other memory that lies next
// to a mutex.
func TestIsMutex(t *testing.T) {
	for name, c := range map[string]struct {
		words [10]uint32
		want  bool
	}{
		"free":                         {[10]uint32{}, true},
		"glibc, locked":                {[10]uint32{1, 0, 4711, 1}, true},
		"glibc, waited for":            {[10]uint32{2, 0, 4711, 1}, true},
		"glibc, being unlocked":        {[10]uint32{1, 0, 0, 0}, true},
		"glibc, with elision":          {[10]uint32{0, 0, 0, 0, 0x100, 0x00030002}, true},
		"musl, locked":                 {[10]uint32{0, 16}, true},
		"musl, waited for":             {[10]uint32{0, 1<<31 | 16, 3}, true},
		"recursive":                    {[10]uint32{1, 1, 4711, 1, 1}, false},
		"robust, in a list":            {[10]uint32{1, 0, 4711, 1, 16, 0, 0x1000, 0x7f00, 0x1000, 0x7f00}, false},
		"8 bytes too late: the owner":  {[10]uint32{4711, 1, 0, 0, 0, 0, 0, 0, 0xf00d0, 0x7f00}, false},
		"8 bytes too early: a pointer": {[10]uint32{0xf00d0, 0x7f00, 1, 0, 4711, 1}, false},
		"a list":                       {[10]uint32{0xf00d0, 0x7f00, 0xf00d0, 0x7f00}, false},
	} {
		var b [mutexSize]byte
		for i, w := range c.words {
			binary.LittleEndian.PutUint32(b[4*i:], w)
		}
		if got := isMutex(&b); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestForgetsMutex: forgetsMutex is true exactly for the releases whose forked children do not initialize the mutex
// again (bugs.ruby-lang.org/issues/21860).
func TestForgetsMutex(t *testing.T) {
	for version, want := range map[string]bool{
		"2.7.4": false, "3.3.8": false, "3.4.0": true, "3.4.5": true, "3.4.8": true, "3.4.9": false, "3.4.11": false, "4.0.5": false,
	} {
		release, err := places.ParseRelease(version)
		if got := forgetsMutex(release); got != want || err != nil {
			t.Errorf("%s: %t, %v", version, got, err)
		}
	}
}
