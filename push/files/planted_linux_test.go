package files

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/push"
)

// TestPlanted: another user puts a pipe or a link with the name of a profile into the folder. ddtop writes nothing into
// the pipe or the link's target. It replaces the pipe or the link by the profile's file. ddtop also refuses a folder
// that belongs to another user, even if the owner changed after ddtop opened the folder.
func TestPlanted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	const stranger = 65534
	dir := filepath.Join(t.TempDir(), "profiles")
	made := func() (*Folder, error) { return New(&url.URL{Scheme: "file", Path: dir}) }
	d, err := made()
	if err != nil {
		t.Fatal(err)
	}
	p := &push.Payload{PID: 7, Title: "puma", From: time.Now(), Body: []byte("profile")}
	path, other := filepath.Join(dir, nameOf(p)), filepath.Join(dir, "other")
	for what, plant := range map[string]func() error{
		"a pipe":          func() error { return syscall.Mkfifo(path, 0o666) },
		"a link":          func() error { return errors.Join(os.WriteFile(other, nil, 0o600), os.Symlink(other, path)) },
		"another's file":  func() error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, stranger, 0)) },
		"a second name":   func() error { return errors.Join(os.WriteFile(other, nil, 0o600), os.Link(other, path)) },
		"a link to a dir": func() error { return os.Symlink("/tmp", path) },
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if err := d.Send(t.Context(), p); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if info, err := os.Lstat(path); err != nil || safefile.OwnFile(info) != nil || info.Size() != int64(len(p.Body)) {
			t.Errorf("%s: there is %v, %v", what, info, err)
		}
		if info, err := os.Stat(other); err == nil && info.Size() > 0 {
			t.Errorf("%s: the other file was written", what)
		}
		_ = os.Remove(other) // an error is allowed: not every test case makes this file
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, stranger, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Send(t.Context(), p); !errors.Is(err, safefile.ErrUntrusted) {
		t.Errorf("into a folder that another user has now: %v", err)
	}
	if _, err := made(); !errors.Is(err, safefile.ErrUntrusted) {
		t.Errorf("a folder of another user: %v", err)
	}
}
