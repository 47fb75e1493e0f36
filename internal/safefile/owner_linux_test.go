package safefile

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// TestFilesOfSudoAreTheUsers: a user starts ddtop by sudo. If ddtop makes a file in a folder of this user, the file
// belongs to this user. In other folders, new files belong to root. Files that existed before keep their owners.
func TestFilesOfSudoAreTheUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const user, group, other = 54321, 54322, 54323
	owners := func(path string) (uid, gid uint32) {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		return st.Uid, st.Gid
	}
	text := func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }
	for _, c := range []struct {
		name             string
		sudo             string
		folder           int
		uid, gid         uint32
		setgid, isFolder bool
	}{
		{name: "the user's folder", sudo: strconv.Itoa(user), folder: user, uid: user, gid: group},
		{name: "a folder that is made in it", sudo: strconv.Itoa(user), folder: user, uid: user, gid: group, isFolder: true},
		{name: "a folder with a group of its own", sudo: strconv.Itoa(user), folder: user, uid: user, gid: other, setgid: true},
		{name: "root's folder", sudo: strconv.Itoa(user), folder: 0},
		{name: "somebody else's folder", sudo: strconv.Itoa(user), folder: other},
		{name: "no sudo", sudo: "", folder: user},
		{name: "sudo by root", sudo: "0", folder: 0},
		{name: "no number", sudo: "-1", folder: user},
		{name: "no user", sudo: "4294967295", folder: user},
	} {
		t.Setenv("PKEXEC_UID", "")
		t.Setenv("SUDO_UID", c.sudo)
		t.Setenv("SUDO_GID", strconv.Itoa(group))
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, c.folder, other); err != nil {
			t.Fatal(err)
		}
		if c.setgid {
			if err := os.Chmod(dir, 0o755|os.ModeSetgid); err != nil {
				t.Fatal(err)
			}
		}
		if c.isFolder {
			dir = filepath.Join(dir, "a", "b")
			made, err := MakeFolder(dir)
			if err != nil {
				t.Fatal(err)
			}
			made.Close()
			if uid, gid := owners(dir); uid != c.uid || gid != c.gid {
				t.Errorf("%s is %d:%d's", c.name, uid, gid)
			}
		}
		path := filepath.Join(dir, "file")
		if err := WriteFile(path, Waiting{}, text); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if uid, gid := owners(path); uid != c.uid || gid != c.gid {
			t.Errorf("%s: the file is %d:%d's, want %d:%d", c.name, uid, gid, c.uid, c.gid)
		}
		// Files and folders that already exist must keep their owners. The test uses a file of root with a second name
		// (a hard link), and a folder that is not empty.
		keep := filepath.Join(dir, "kept")
		if err := os.WriteFile(keep, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(filepath.Dir(dir))
		if err != nil {
			t.Fatal(err)
		}
		before, _ := owners(dir)
		handOverFolder(root, "d")
		if after, _ := owners(dir); after != before {
			t.Errorf("%s: the folder changed hands", c.name)
		}
		root.Close()
		inner, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := inner.Open("kept")
		if err != nil {
			t.Fatal(err)
		}
		HandOver(inner, f)
		f.Close()
		inner.Close()
		if uid, _ := owners(keep); uid != 0 {
			t.Errorf("%s: a file that was there is user %d's now", c.name, uid)
		}
	}
}
