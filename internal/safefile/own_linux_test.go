package safefile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stranger is the ID of a user that is neither root nor the user that ddtop runs as.
const stranger = 65534

// TestOwnFolder: ddtop refuses a folder for its own files if another user has made it, may write to it, or may replace
// it.
func TestOwnFolder(t *testing.T) {
	needRoot(t)
	t.Setenv("SUDO_UID", "")
	t.Setenv("PKEXEC_UID", "")
	for _, c := range []struct {
		name string
		// change sets another owner or mode for one of the folders base, base/up and base/up/folder. Before this, all
		// of them belong to root.
		change func(t *testing.T, up, folder string)
		ok     bool
	}{
		{"root's", nil, true},
		{"not there", func(t *testing.T, _, folder string) { must(t, os.Remove(folder)) }, true},
		{"not there, nor above it", func(t *testing.T, up, _ string) { must(t, os.RemoveAll(up)) }, true},
		{"another user's", func(t *testing.T, _, folder string) { must(t, os.Chown(folder, stranger, stranger)) }, false},
		{"all may write", func(t *testing.T, _, folder string) { must(t, os.Chmod(folder, 0o777)) }, false},
		{"all may write, sticky", func(t *testing.T, _, folder string) { must(t, os.Chmod(folder, 0o777|os.ModeSticky)) }, false},
		{"a group may write", func(t *testing.T, _, folder string) { must(t, os.Chmod(folder, 0o775)) }, false},
		{"in another user's", func(t *testing.T, up, _ string) { must(t, os.Chown(up, stranger, stranger)) }, false},
		{"in another user's, not there", func(t *testing.T, up, folder string) {
			must(t, os.Remove(folder))
			must(t, os.Chown(up, stranger, stranger))
		}, false},
		{"in one that all may write to", func(t *testing.T, up, _ string) { must(t, os.Chmod(up, 0o777)) }, false},
		{"in one that a group may write to", func(t *testing.T, up, _ string) { must(t, os.Chmod(up, 0o775)) }, false},
		{"in one that all may write to, not there", func(t *testing.T, up, folder string) {
			must(t, os.Remove(folder))
			must(t, os.Chmod(up, 0o777))
		}, false},
		{"in a sticky one", func(t *testing.T, up, _ string) { must(t, os.Chmod(up, 0o777|os.ModeSticky)) }, true},
		{"another user's in a sticky one", func(t *testing.T, up, folder string) {
			must(t, os.Chmod(up, 0o777|os.ModeSticky))
			must(t, os.Chown(folder, stranger, stranger))
		}, false},
		{"a link of another user's", func(t *testing.T, up, folder string) {
			must(t, os.Rename(folder, filepath.Join(up, "real")))
			must(t, os.Symlink("real", folder))
			must(t, os.Lchown(folder, stranger, stranger))
		}, false},
		{"a link of root's", func(t *testing.T, up, folder string) {
			must(t, os.Rename(folder, filepath.Join(up, "real")))
			must(t, os.Symlink("real", folder))
		}, true},
		{"a link of root's to a folder that all may write to", func(t *testing.T, up, folder string) {
			must(t, os.Rename(folder, filepath.Join(up, "real")))
			must(t, os.Chmod(filepath.Join(up, "real"), 0o777))
			must(t, os.Symlink("real", folder))
		}, false},
		{"a file", func(t *testing.T, _, folder string) {
			must(t, os.Remove(folder))
			must(t, os.WriteFile(folder, nil, 0o600))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := filepath.Join(t.TempDir(), "up")
			folder := filepath.Join(up, "folder")
			must(t, os.MkdirAll(folder, 0o755))
			if c.change != nil {
				c.change(t, up, folder)
			}
			dir, err := OwnFolder(folder)
			if err == nil {
				must(t, dir.Close())
			}
			if (err == nil) != c.ok {
				t.Errorf("error %v, want one: %v", err, !c.ok)
			}
			if err != nil && !errors.Is(err, ErrUntrusted) && !errors.Is(err, unix.ENOTDIR) {
				t.Errorf("%v is neither ErrUntrusted nor ENOTDIR", err)
			}
		})
	}
}

// TestOwnVolume: ddtop accepts an empty volume of a container to which all users may write, and closes it to other
// users. It refuses a volume that is not empty, and a folder that all users share, like /tmp. The modes of refused
// folders must stay.
func TestOwnVolume(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("ddtop-test", dir, "tmpfs", 0, "size=1m,mode=0777"); err != nil {
		t.Skipf("mounting a volume (root can): %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	planted := filepath.Join(dir, "planted")
	must(t, os.WriteFile(planted, nil, 0o600))
	if f, err := OwnFolder(dir); !errors.Is(err, ErrUntrusted) {
		t.Errorf("with a file in it: %v, %v", f, err)
	}
	has := func(what string, want os.FileMode) {
		t.Helper()
		const bits = os.ModePerm | os.ModeSticky
		if info, err := os.Stat(dir); err != nil || info.Mode()&bits != want {
			t.Errorf("%s has mode %v, %v, want %v", what, info.Mode(), err, want)
		}
	}
	has("a volume that was refused", 0o777)
	must(t, os.Remove(planted))
	must(t, os.Chmod(dir, 0o777|os.ModeSticky))
	before := sharedFolders
	t.Cleanup(func() { sharedFolders = before })
	sharedFolders = []string{dir}
	if f, err := OwnFolder(dir); !errors.Is(err, ErrUntrusted) {
		t.Errorf("all users' folder: %v, %v", f, err)
	}
	has("a volume like /tmp", 0o777|os.ModeSticky)
	sharedFolders = before
	for _, shared := range []string{"/tmp", "/dev/shm"} {
		if !isShared(shared) {
			t.Errorf("%s is not known to be all users'", shared)
		}
	}
	f, err := OwnFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
	has("a volume that is ddtop's now", 0o700)
}

// TestOpenOwn: in its own folder, ddtop opens only files that it may have written itself.
func TestOpenOwn(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want error
	}{
		"a file":   {func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }, nil},
		"a pipe":   {func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }, ErrNotRegular},
		"a folder": {func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, ErrNotRegular},
		"a link":   {func(t *testing.T, path string) { must(t, os.Symlink("other", path)) }, ErrNotRegular},
		"another user's file": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Chown(path, stranger, 0))
		}, ErrUntrusted},
		"one that all can write": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Chmod(path, 0o666))
		}, ErrUntrusted},
		"one with two names": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Link(path, path+"2"))
		}, ErrUntrusted},
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "other"), nil, 0o600))
		c.make(t, filepath.Join(dir, "it"))
		folder, err := OwnFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenOwn(folder, "it", os.O_RDONLY)
		if err == nil {
			must(t, f.Close())
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		must(t, folder.Close())
	}
}
