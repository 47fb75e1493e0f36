package attach

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/safefile"
)

// startNobody starts this test binary as the user with ID 65534, in a root folder of its own. It returns the child and
// this folder.
func startNobody(t *testing.T) (*child, string) {
	t.Helper()
	needRoot(t)
	root, err := os.MkdirTemp("", "ddtop-attach-root-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	copyOfMyself(t, filepath.Join(root, "helper"))
	copyLibraries(t, root)
	c := startHelper(t, "pages", func(cmd *exec.Cmd) {
		cmd.Path = "/helper"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir = "/"
	})
	c.line(t)
	return c, root
}

// copyLibraries copies the libraries that this test binary needs. The copies have the same paths below a root. It
// copies none if the binary is linked statically.
func copyLibraries(t *testing.T, root string) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	mappings, err := mapped.ParseMaps(maps)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, path := range mapped.MappedFiles(mappings) {
		if strings.Contains(filepath.Base(path), ".so") {
			files = append(files, path)
		}
	}
	self, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if s := self.Section(".interp"); s != nil {
		b, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, strings.TrimRight(string(b), "\x00"))
	}
	for _, path := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := copyTo(path, filepath.Join(root, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// watchFile returns a function that reports whether a file, pipe or device was opened (inotify(7)). Opening it with
// O_PATH does not count.
func watchFile(t *testing.T, path string) (opened func() bool) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return func() bool {
		n, err := unix.Read(fd, make([]byte, 4096))
		return err == nil && n > 0
	}
}

// TestReadFileOfHostile: in the root folder of another user's process, ReadFile reads regular files within the limits.
// It refuses pipes, devices, large files, and links to the host.
func TestReadFileOfHostile(t *testing.T) {
	c, root := startNobody(t)
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("app.rb", "puts 1", 0o644)
	write("secret", "root's", 0o600)
	write("large", strings.Repeat("x", 101), 0o644)
	outside := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(outside, []byte("the host's"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"absolute": outside, "relative": strings.Repeat("../", 20) + outside[1:], "inside": "/app.rb"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(root, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(filepath.Join(root, "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fifo", "device"} {
		if err := os.Chmod(filepath.Join(root, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p := open(t, c.pid)
	pipe, device := watchFile(t, filepath.Join(root, "fifo")), watchFile(t, filepath.Join(root, "device"))
	for _, test := range []struct {
		path, want string
		err        error
	}{
		{"/app.rb", "puts 1", nil}, {"/inside", "puts 1", nil}, {"/../app.rb", "puts 1", nil},
		{"/secret", "", os.ErrPermission}, {"/absolute", "", os.ErrNotExist}, {"/relative", "", os.ErrNotExist},
		{"/fifo", "", safefile.ErrNotRegular}, {"/device", "", safefile.ErrNotRegular}, {"/", "", safefile.ErrNotRegular},
		{"/large", "", safefile.ErrTooLarge},
	} {
		content, _, err := p.ReadFile(test.path, 100)
		if string(content) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v; want %q, %v", test.path, content, err, test.want, test.err)
		}
	}
	if pipe() || device() {
		t.Errorf("the pipe was opened (%t), or the device", pipe())
	}
	c.kill(t)
	if _, _, err := p.ReadFile("/app.rb", 100); !errors.Is(err, ErrGone) {
		t.Errorf("of a process that has ended: %v", err)
	}
}

// TestReadFileAfterExec: after ddtop has opened a process, the process calls exec. The new program may have more
// rights. ReadFile refuses to read files with the rights of the new program.
func TestReadFileAfterExec(t *testing.T) {
	c := startHelper(t, "exec", nil)
	c.line(t)
	p := open(t, c.pid)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.ReadFile(file, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	c.line(t)
	if _, _, err := p.ReadFile(file, 1); !errors.Is(err, ErrReplaced) {
		t.Errorf("after exec: %v", err)
	}
}

// TestOpenMappedHostile: the path of a mapping can lead to a file that is not the mapped one, in the process's root
// folder or in ddtop's. ddtop never opens such a file, not even to compare it.
func TestOpenMappedHostile(t *testing.T) {
	c, root := startNobody(t)
	p := open(t, c.pid)
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	self := maps[0]
	if !self.IsFile() || self.Offset != 0 {
		t.Fatalf("the first mapping is %+v", self)
	}
	if f, err := p.openMapped(self); err != nil {
		t.Fatalf("the program in its chroot: %v", err)
	} else if want := p.Path("root", "helper"); f.Close() != nil || f.Name() != want {
		t.Errorf("opened %s, want %s: with the process's rights", f.Name(), want)
	}
	dir := t.TempDir()
	// The path leads to one file for the process, and to another file for ddtop, which has another root folder.
	if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"fifo":   func(path string) error { return unix.Mkfifo(path, 0o666) },
		"device": func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) },
		"secret": func(path string) error { return os.WriteFile(path, []byte("root's"), 0o600) },
	} {
		path := filepath.Join(dir, name)
		var watches []func() bool
		for _, place := range []string{path, filepath.Join(root, path)} {
			if err := make(place); err != nil {
				t.Fatal(err)
			}
			watches = append(watches, watchFile(t, place))
		}
		m := self
		m.Path, m.Inode, m.Start, m.End = path, m.Inode+1, 0x1000, 0x2000
		start := time.Now()
		if f, err := p.openMapped(m); err == nil {
			t.Errorf("%s: opened as %s", name, f.Name())
			f.Close()
		}
		for i, opened := range watches {
			if opened() {
				t.Errorf("%s: it was opened, in our root %t, after %v", name, i == 0, time.Since(start))
			}
		}
	}
}

// TestDebugFileHostile: a hostile program puts something else at the place of a library's debug file: a pipe, a device,
// a huge file, or a link to a file of root. ddtop does not open it.
func TestDebugFileHostile(t *testing.T) {
	c, root := startNobody(t)
	p := open(t, c.pid)
	dir := buildSeparate(t, "-Wl,--build-id=none")
	whole, secret := filepath.Join(dir, "whole.so"), filepath.Join(dir, "library.debug")
	if err := os.Chmod(secret, 0o600); err != nil { // only root may read it
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"fifo":          func(path string) error { return unix.Mkfifo(path, 0o666) },
		"device":        func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) },
		"link":          func(path string) error { return os.Symlink(secret, path) },
		"hard link":     func(path string) error { return linkOrCopy(secret, path) },
		"sparse":        func(path string) error { return sparse(path, mapped.MaxDebugFile+1) },
		"another's, ok": func(path string) error { return copyTo(secret, path, 0o644) },
	} {
		m, err := OpenFile(filepath.Join(dir, "library.so"))
		if err != nil {
			t.Fatal(err)
		}
		p.setRoots(m)
		m.Path = "/srv/library.so"
		place := filepath.Join(root, "srv/library.debug")
		os.RemoveAll(filepath.Dir(place))
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := make(place); err != nil {
			t.Fatal(err)
		}
		watched := secret
		if name == "fifo" || name == "device" || name == "sparse" {
			watched = place
		}
		opened := watchFile(t, watched)
		f, err := m.DebugFile()
		if ok := strings.HasSuffix(name, "ok"); ok != (err == nil) {
			t.Errorf("%s: %+v, %v", name, f, err)
		} else if !ok && opened() {
			t.Errorf("%s: %s was opened", name, watched)
		}
		m.Close()
	}
	if _, err := os.Stat(whole); err != nil {
		t.Fatal(err)
	}
}

func linkOrCopy(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return copyTo(from, to, 0o600)
	}
	return nil
}

func copyTo(from, to string, mode os.FileMode) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, b, mode), os.Chmod(to, mode))
}

func sparse(path string, size int64) error {
	return errors.Join(os.WriteFile(path, nil, 0o644), os.Chmod(path, 0o644), os.Truncate(path, size))
}
