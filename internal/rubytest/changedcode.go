package rubytest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// ChangedCode returns how many bytes of a process's code in memory differ from the files that the code was loaded from.
// Most of these bytes are breakpoints of exact mode.
func ChangedCode(t testing.TB, pid int) (bytes int) {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	seen := false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to, offset int64
		var rights, device, inode, path string
		// some lines have no path
		_, _ = fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %s %s", &from, &to, &rights, &offset, &device, &inode, &path)
		if !strings.Contains(rights, "x") || !strings.HasPrefix(path, "/") {
			continue
		}
		file, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, from, to))
		if errors.Is(err, os.ErrPermission) {
			file, err = os.Open(fmt.Sprintf("/proc/%d/root%s", pid, path))
		}
		if err != nil {
			t.Fatal(err)
		}
		has, should := make([]byte, to-from), make([]byte, to-from)
		_, err = memory.ReadAt(has, from)
		n, _ := file.ReadAt(should, offset) // the last page can be longer than the file
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		seen = true
		for i := range n {
			if has[i] != should[i] {
				bytes++
			}
		}
	}
	if !seen {
		t.Fatalf("no code of process %d is mapped", pid)
	}
	return bytes
}

// Probed waits until exact mode has put probes into a process's code. If wanted is false, it waits until no probes are
// left.
func Probed(t testing.TB, pid int, wanted bool) {
	t.Helper()
	for deadline := time.Now().Add(Timeout); ; time.Sleep(5 * time.Millisecond) {
		n := ChangedCode(t, pid)
		if n != 0 == wanted {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes of process %d's code are not the files'", n, pid)
		}
	}
}
