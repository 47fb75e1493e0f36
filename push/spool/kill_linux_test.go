package spool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// kills is how many times the test starts and kills a process that uses the spool.
const kills = 200

// TestKilled: a process that uses a spool is killed at a random time. Afterwards the spool is readable. It has all
// entries that the process had put into it and not removed.
func TestKilled(t *testing.T) {
	rubytest.OftenEnough(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	said := filepath.Join(t.TempDir(), "said")
	there := make(map[int]bool)
	n := kills
	if rubytest.Short(t) {
		n /= 10
	}
	for range n {
		out, err := os.Create(said)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "DDTOP_TEST_SPOOL="+dir)
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for { // wait until the process has added an entry
			if info, err := out.Stat(); err == nil && info.Size() > 0 {
				break
			}
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond) // any moment is good for the kill
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
			t.Fatalf("it ended by itself: %v", err)
		}
		if _, err := out.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		checkKilled(t, dir, out, there)
		out.Close()
		if t.Failed() {
			return
		}
	}
	if len(there) == 0 {
		rubytest.TooSeldom(t, "nothing was left to compare")
	}
}

// TestFullDisk: if the disk is full, the queue removes the oldest entries to make room. If there is still no room for a
// new entry, the queue keeps the entry in memory.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("ddtop-test", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("mounting a disk of 256 KB (root can): %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	q := open(t, dir, Limits{1 << 30, 1000})
	defer q.Close()
	data := make([]byte, 50_000)
	for i := range 20 {
		if err := q.Put(at, fmt.Appendf(data[:0:0], "%050000d", i)); err != nil {
			t.Fatal(err)
		}
	}
	s := q.Stats()
	if s.Count < 2 || s.Count > 5 || s.Dropped != int64(20-s.Count) || s.InMemory != 0 {
		t.Errorf("after twenty times 50 KB: %+v", s)
	}
	// Another program takes all of the room.
	foreign, err := os.Create(filepath.Join(dir, "foreign"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = foreign.Write(data[:4096])
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := q.Put(at, make([]byte, 300_000)); !errors.Is(err, ErrNotOnDisk) {
		t.Errorf("of a full disk: %v", err)
	}
	if s := q.Stats(); s.Count != 1 || s.InMemory != 1 || s.Dropped != 20 {
		t.Errorf("of a full disk: %+v", s)
	}
	if err := foreign.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(foreign.Name()); err != nil {
		t.Fatal(err)
	}
	if err := q.Put(at, data); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
	if got := drain(t, q); len(got) != 350_001 {
		t.Errorf("%d bytes in the end", len(got))
	}
}
