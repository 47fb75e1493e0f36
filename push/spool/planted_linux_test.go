package spool

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/safefile"
)

// TestPlanted: another user has put files into the folder. ddtop does not read, send or remove them. If another user
// may write to the folder, ddtop refuses the folder.
func TestPlanted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	const stranger = 65534
	dir := t.TempDir()
	all := header([]byte("planted")) + "planted"
	var errs []error
	plant := func(n int64, change func(path string) error) {
		path := filepath.Join(dir, nameOf(n))
		errs = append(errs, os.WriteFile(path, []byte(all), 0o600), change(path))
	}
	plant(1, func(path string) error { return os.Chown(path, stranger, stranger) })
	plant(2, func(path string) error { return os.Chmod(path, 0o666) })
	plant(3, func(path string) error { return os.Link(path, filepath.Join(dir, "again")) })
	plant(4, func(path string) error {
		return errors.Join(os.Rename(path, filepath.Join(dir, "real")), os.Symlink("real", path))
	})
	plant(5, func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) })
	plant(6, func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	q := open(t, dir, Limits{1 << 20, 100})
	put(t, q, "ours")
	put(t, q, "exchanged")
	if got := drain(t, q); got != "ours exchanged" {
		t.Errorf("got %q", got)
	}
	put(t, q, "exchanged")
	name := filepath.Join(dir, q.entries[0].name)
	if err := errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, q); got != "" || q.Stats().Damaged != 1 {
		t.Errorf("for a pipe in its place: %q, %+v", got, q.Stats())
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	for n := range int64(6) {
		if _, err := os.Lstat(filepath.Join(dir, nameOf(n+1))); err != nil {
			t.Errorf("what is another user's was removed: %v", err)
		}
	}
	for what, change := range map[string]func() error{
		"another user's": func() error { return os.Chown(dir, stranger, 0) },
		"open to all":    func() error { return errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o777)) },
	} {
		if err := errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o700), change()); err != nil {
			t.Fatal(err)
		}
		if q, err := Open(dir, Limits{1 << 20, 100}); !errors.Is(err, safefile.ErrUntrusted) {
			t.Errorf("a folder that is %s: %v, %v", what, q, err)
		}
	}
	if err := errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o700), os.Remove(filepath.Join(dir, lockName)), os.Symlink("elsewhere", filepath.Join(dir, lockName))); err != nil {
		t.Fatal(err)
	}
	if q, err := Open(dir, Limits{1 << 20, 100}); err == nil {
		t.Errorf("with a link as its lock: %v", q)
	}
}

// TestHostileNames: files with names that ddtop does not use stay as they are. They do not prevent ddtop from opening
// the spool, and do not change the order of its entries.
func TestHostileNames(t *testing.T) {
	dir := t.TempDir()
	names := []string{
		"09223372036854775807.spooled", "99999999999999999999.spooled", "-0000000000000000001.spooled", "x.spooled", "x.spooled.tmp",
		"\n.spooled", "0000000000000000000\uff11.spooled", "1.spooled",
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(header([]byte("planted"))+"planted"), 0o600))
	}
	names = append(names, nameOf(3), nameOf(4)+unfinished)
	for _, name := range names[len(names)-2:] {
		errs = append(errs, os.MkdirAll(filepath.Join(dir, name, "full"), 0o700))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	q := open(t, dir, Limits{1 << 20, 100})
	put(t, q, "first")
	put(t, q, "second")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	q = open(t, dir, Limits{1 << 20, 100})
	if got := drain(t, q); got != "first second" {
		t.Errorf("got %q", got)
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
