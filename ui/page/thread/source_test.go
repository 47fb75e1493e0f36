package thread

import (
	"errors"
	"os"
	"testing"
	"time"
)

// files imitates the files of a process. It maps each path to the time at which the file was last changed.
type files map[string]time.Time

func TestReadSource(t *testing.T) {
	start := time.Now()
	f := readSource(files{"/x.rb": start}, "/x.rb", start.Add(-time.Hour))
	if f.Err != nil || len(f.Lines) != maxSourceLines || f.Lines[0] != "a" || f.Lines[1] != "  b" || !f.Newer {
		t.Errorf("%d lines, %v, newer %t, %v", len(f.Lines), f.Lines[:2], f.Newer, f.Err)
	}
	for after, newer := range map[time.Duration]bool{-time.Hour: false, 5 * time.Millisecond: false, 2 * time.Second: true} {
		if f := readSource(files{"/x.rb": start.Add(after)}, "/x.rb", start); f.Newer != newer {
			t.Errorf("a file written %v after the process started counts as changed since: %t", after, f.Newer)
		}
	}
	if f := readSource(files{}, "/none.rb", time.Time{}); !errors.Is(f.Err, os.ErrNotExist) {
		t.Error(f.Err)
	}
}
