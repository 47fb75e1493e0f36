package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/safefile"
)

// keptForTest returns a folder of recordings. It also returns a list to which the folder adds each recording that it
// removes.
func keptForTest(t *testing.T, count int, bytes int64) (*Folder, *[]string) {
	t.Helper()
	removed := new([]string)
	k := &Folder{path: filepath.Join(t.TempDir(), "kept"), count: count, bytes: bytes}
	k.removed = func(path string, _ int64) { *removed = append(*removed, filepath.Base(path)) }
	if err := k.Check(); err != nil {
		t.Fatal(err)
	}
	return k, removed
}

// make writes a recording of the given size, and returns its name.
func (k *Folder) make(t *testing.T, at time.Time, size int) string {
	t.Helper()
	r, err := k.begin(keptFileName("puma", 17, at, "gvl_hog"))
	if err == nil {
		_, err = r.Write(make([]byte, size))
	}
	if err != nil {
		t.Fatal(err)
	}
	kept, err := r.close(true, true)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(kept)
}

func namesIn(t *testing.T, folder string) []string {
	t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// TestKeptLimits: if the folder exceeds its limits, ddtop removes the recordings that it made first, even if the clock
// was set back in between. It removes no files that are not recordings.
func TestKeptLimits(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	k, removed := keptForTest(t, 3, 1e6)
	for _, name := range []string{"notes.txt", "mine.ddtop", "puma-17-20261123T080000.000Z-gvl_hog.ddtop.bak"} {
		if err := os.WriteFile(filepath.Join(k.path, name), make([]byte, 2e6), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := len(namesIn(t, k.path))
	old := keptFileName("puma", 9, at.Add(time.Hour), "old") + ".ddtop"
	if err := os.WriteFile(filepath.Join(k.path, old), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var made []string
	for i := range 5 {
		made = append(made, k.make(t, at.Add(-time.Duration(i)*time.Minute), 1000))
		if _, err := k.trim(0); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{old, made[0], made[1]}; !slices.Equal(*removed, want) {
		t.Errorf("%v were removed, want %v", *removed, want)
	}
	if got := namesIn(t, k.path); len(got) != before+3 {
		t.Errorf("left are %v", got)
	}

	// This recording alone nearly reaches the size limit, so all others are removed.
	*removed = nil
	big := k.make(t, at, 999_500)
	if enough, err := k.trim(0); !enough || err != nil || len(*removed) != 3 {
		t.Errorf("%v, %v, removed %v", enough, err, *removed)
	}
	if _, err := os.Stat(filepath.Join(k.path, big)); err != nil {
		t.Error(err)
	}
}

// TestKeptWhileWritten: ddtop does not remove a recording that this or another ddtop is still writing. If such
// recordings alone exceed the size limit, trim reports that there is not enough room.
func TestKeptWhileWritten(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	k, removed := keptForTest(t, 10, 1e6)
	other := &Folder{path: k.path, count: 10, bytes: 1e6, removed: k.removed}
	theirs, err := other.begin(keptFileName("puma", 18, at, "any"))
	if err != nil {
		t.Fatal(err)
	}
	dead := keptFileName("puma", 19, at, "any") + ".ddtop" + run.Partial // the ddtop that made this file was killed
	if err := os.WriteFile(filepath.Join(k.path, dead), make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	ours, err := k.begin(keptFileName("puma", 17, at, "any"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Write(make([]byte, 900_000)); err != nil {
		t.Fatal(err)
	}
	if enough, err := k.trim(0); !enough || err != nil || len(*removed) != 0 {
		t.Errorf("%v, %v, removed %v", enough, err, *removed)
	}
	if enough, err := k.trim(spareBytes); enough || err != nil || !slices.Equal(*removed, []string{dead}) {
		t.Errorf("%v, %v, removed %v", enough, err, *removed)
	}
	for _, r := range []*keptRecording{ours, theirs} {
		if kept, err := r.close(true, true); err != nil || kept != filepath.Join(k.path, r.name) {
			t.Error(kept, err)
		}
	}
	if got := namesIn(t, k.path); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestKeptNames: ddtop never overwrites an existing file. If a process has a hostile title, the recording's path still
// does not leave the folder. If the folder was removed, ddtop makes it again.
func TestKeptNames(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	k, _ := keptForTest(t, 10, 1e6)
	a, b := k.make(t, at, 1), k.make(t, at, 2)
	if a == b || !keptName.MatchString(a) || !keptName.MatchString(b) {
		t.Errorf("%s and %s", a, b)
	}
	for _, title := range []string{"", "../../etc/passwd", "..", "-rf", "a b\x1b[31mü", strings.Repeat("x", 10_000)} {
		name := keptFileName(title, 1, at, "any") + ".ddtop"
		if !keptName.MatchString(name) || strings.Contains(name, "/") || len(name) > 160 || name[0] == '-' {
			t.Errorf("%.40q makes %q", title, name)
		}
	}
	if err := os.RemoveAll(k.path); err != nil {
		t.Fatal(err)
	}
	if c := k.make(t, at, 3); !slices.Equal(namesIn(t, k.path), []string{c}) {
		t.Errorf("%v", namesIn(t, k.path))
	}
	// If the folder is removed while ddtop writes a recording, closing this recording fails. The next recording must
	// succeed.
	r, err := k.begin("puma-17-20261123T080000.000Z-any")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(k.path); err != nil {
		t.Fatal(err)
	}
	if _, err := r.close(true, true); err == nil {
		t.Error("it says that a recording in a folder that is gone is there")
	}
	k.make(t, at, 4)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&Folder{path: file}).Check(); err == nil || !strings.Contains(fmt.Sprint(err), "is a file") {
		t.Error(err)
	}
}

// TestKeptInAnothersFolder: ddtop makes no recordings in a folder that belongs to another user, or to which other users
// may write. If a pipe already has the name of a recording, ddtop writes nothing to the pipe.
func TestKeptInAnothersFolder(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	k, _ := keptForTest(t, 10, 1e6)
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	pipe := filepath.Join(k.path, keptFileName("puma", 17, at, "gvl_hog")+".ddtop"+run.Partial)
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(filepath.Join(k.path, k.make(t, at, 5))); err != nil || !info.Mode().IsRegular() || info.Size() != 5 {
		t.Errorf("%v, %v", info, err)
	}
	for what, change := range map[string]func() error{
		"another user's":  func() error { return os.Chown(k.path, 65534, 0) },
		"open to all":     func() error { return os.Chmod(k.path, 0o777) },
		"open to a group": func() error { return os.Chmod(k.path, 0o770) },
	} {
		if err := errors.Join(os.Chown(k.path, 0, 0), os.Chmod(k.path, 0o700), change()); err != nil {
			t.Fatal(err)
		}
		_, began := k.begin("puma-17-20261123T080000.000Z-any")
		_, trimmed := k.trim(0)
		for _, err := range []error{k.Check(), began, trimmed} {
			if !errors.Is(err, safefile.ErrUntrusted) {
				t.Errorf("a folder that is %s: %v", what, err)
			}
		}
	}
}
