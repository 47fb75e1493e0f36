package ui

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/export/snapshot"
)

// TestSnapshotOfSudoIsTheUsers: if ddtop runs by sudo, the user who ran sudo owns a snapshot's folder and files.
func TestSnapshotOfSudoIsTheUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	t.Setenv("SUDO_UID", "54321")
	t.Setenv("SUDO_GID", "54321")
	dir := t.TempDir()
	if err := os.Chown(dir, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	path, err := saveSnapshot(filepath.Join(dir, "new"), snapshot.Snapshot{Program: "x", PID: 1, At: time.Unix(1, 0), Summary: "y"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{filepath.Dir(path), path, filepath.Join(path, "summary.md")} {
		info, err := os.Lstat(p)
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 54321 || st.Gid != 54321 || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is user %d's, group %d, %v", p, st.Uid, st.Gid, info.Mode())
		}
	}
}
