package safefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestTrusted reads and writes settings that belong to several users, as root under sudo does. ddtop must refuse
// settings that it cannot trust.
func TestTrusted(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		name          string
		change        func(t *testing.T, home, file string)
		sudo          string
		reads, writes bool
	}{
		{"root's", nil, "", true, true},
		{"another's file", func(t *testing.T, _, file string) { must(t, os.Chown(file, 1234, 0)) }, "", false, true},
		{"another's folder", func(t *testing.T, home, _ string) { must(t, os.Chown(home, 1234, 0)) }, "", false, false},
		{"of who used sudo", func(t *testing.T, home, file string) {
			must(t, os.Chown(filepath.Dir(file), 1234, 0))
			must(t, os.Chown(file, 1234, 0))
		}, "1234", true, false},
		{"of another than who used sudo", func(t *testing.T, _, file string) { must(t, os.Chown(file, 1234, 0)) }, "1235", false, true},
		{"a file that a group may write", func(t *testing.T, _, file string) { must(t, os.Chmod(file, 0o664)) }, "", false, true},
		{"a folder that all may write", func(t *testing.T, home, _ string) { must(t, os.Chmod(home, 0o777)) }, "", false, false},
		{"such a folder, sticky", func(t *testing.T, home, _ string) { must(t, os.Chmod(home, 0o777|os.ModeSticky)) }, "", true, true},
		{"a link of another's", func(t *testing.T, home, file string) {
			must(t, os.Rename(filepath.Dir(file), filepath.Join(home, "real")))
			must(t, os.Symlink("real", filepath.Dir(file)))
			must(t, os.Lchown(filepath.Dir(file), 1234, 0))
		}, "", false, false},
		{"a link of root's", func(t *testing.T, home, file string) {
			must(t, os.Rename(filepath.Dir(file), filepath.Join(home, "real")))
			must(t, os.Symlink("real", filepath.Dir(file)))
		}, "", true, true},
	} {
		home := t.TempDir()
		file := filepath.Join(home, "cache", "table")
		must(t, os.Mkdir(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte("old"), 0o644))
		if c.change != nil {
			c.change(t, home, file)
		}
		t.Setenv("SUDO_UID", c.sudo)
		t.Setenv("PKEXEC_UID", "")
		b, err := ReadTrusted(file, 10)
		if (err == nil) != c.reads || err == nil && string(b) != "old" || err != nil && !errors.Is(err, ErrUntrusted) {
			t.Errorf("%s: read %q, %v", c.name, b, err)
		}
		for _, path := range []string{file, filepath.Join(filepath.Dir(file), "made", "folders", "table")} {
			err = WriteTrusted(path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err })
			if (err == nil) != c.writes || err != nil && !errors.Is(err, ErrUntrusted) {
				t.Errorf("%s: writing %s: %v", c.name, path, err)
			}
			if b, err := ReadTrusted(path, 10); c.writes && (err != nil || string(b) != "new") {
				t.Errorf("%s: wrote, and read %q, %v", c.name, b, err)
			}
		}
	}
	if _, err := ReadTrusted(filepath.Join(t.TempDir(), "none", "none"), 10); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
