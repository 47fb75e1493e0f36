package safefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// These are the rights of a user who owns nothing.
var nobody = &Rights{UID: 65534, GID: 65534}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it takes another user's rights, or makes a device")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world makes two folders and returns them. One is a root that contains everything that a hostile program could put
// there. The other one is outside of the root.
func world(t *testing.T) (root, outside string) {
	t.Helper()
	base, err := os.MkdirTemp("", "ddtop-safefile-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(base) })
	must(t, os.Chmod(base, 0o755))
	root, outside = filepath.Join(base, "root"), filepath.Join(base, "outside")
	write := func(path, text string, mode os.FileMode) {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), mode))
		must(t, os.Chmod(path, mode))
	}
	write(filepath.Join(root, "app.rb"), "inside", 0o644)
	write(filepath.Join(outside, "app.rb"), "outside", 0o644)
	write(filepath.Join(root, outside, "app.rb"), "inside, at the same path", 0o644)
	write(filepath.Join(root, "secret"), "secret", 0o600)
	write(filepath.Join(root, "closed/app.rb"), "behind a folder", 0o644)
	must(t, os.Chmod(filepath.Join(root, "closed"), 0o700))
	write(filepath.Join(root, "large"), "", 0o644)
	must(t, os.Truncate(filepath.Join(root, "large"), 1<<20+1))
	for link, target := range map[string]string{
		"absolute": filepath.Join(outside, "app.rb"), "relative": "../outside/app.rb", "up": "closed/../../../../../../../app.rb",
		"good": "app.rb", "loop": "loop", "folder": "/proc", "hidden": "secret", "dangling": "none",
	} {
		must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	must(t, os.Link(filepath.Join(root, "secret"), filepath.Join(root, "hardlink")))
	must(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o666))
	must(t, unix.Mknod(filepath.Join(root, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	must(t, os.Chmod(filepath.Join(root, "null"), 0o666))
	must(t, os.Chmod(filepath.Join(root, "fifo"), 0o666))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(socket) })
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: filepath.Join(root, "socket")}))
	return root, outside
}

// TestOpen opens names that a hostile program may choose, with openat2 and as on kernels without openat2. ddtop must
// open the files that the rights allow, and refuse all others. The test uses inotify(7) to check that ddtop never opens
// a file that is not regular.
func TestOpen(t *testing.T) {
	needRoot(t)
	root, outside := world(t)
	must(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))
	must(t, unix.Mount("/proc", filepath.Join(root, "proc"), "", unix.MS_BIND|unix.MS_REC, ""))
	t.Cleanup(func() { unix.Unmount(filepath.Join(root, "proc"), unix.MNT_DETACH) })
	for _, old := range []bool{false, true} {
		watch := watchOpens(t, filepath.Join(root, "fifo"), filepath.Join(root, "null"), filepath.Join(root, "secret"),
			filepath.Join(root, "large"), filepath.Join(outside, "app.rb"))
		for _, c := range []struct {
			path, want string
			err        error
		}{
			{"/app.rb", "inside", nil},
			{"app.rb", "inside", nil},
			{"/good", "inside", nil},
			{"/../../../app.rb", "inside", nil},
			{"/up", "", unix.EACCES}, // leads through a closed folder
			{"/absolute", "inside, at the same path", nil},
			{"/relative", "", unix.ENOENT},
			{outside + "/app.rb", "inside, at the same path", nil},
			{"/secret", "", unix.EACCES},
			{"/hardlink", "", unix.EACCES},
			{"/hidden", "", unix.EACCES},
			{"/closed/app.rb", "", unix.EACCES},
			{"/closed/../secret", "", unix.EACCES},
			{"/fifo", "", ErrNotRegular},
			{"/null", "", ErrNotRegular},
			{"/socket", "", ErrNotRegular},
			{"/closed", "", ErrNotRegular},
			{"/", "", ErrNotRegular},
			{"/large", "", ErrTooLarge},
			{"/loop", "", unix.ELOOP},
			{"/dangling", "", unix.ENOENT},
			{"/none", "", unix.ENOENT},
			{"/app.rb/", "", unix.ENOTDIR},
			{"/app.rb/none", "", unix.ENOTDIR},
			{"", "", unix.ENOENT},
			{"/a\x00b", "", unix.EINVAL},
			{"/" + strings.Repeat("a/", maxPath), "", unix.ENAMETOOLONG},
			{"/proc/version", "", ErrNotRegular},
			{"/folder/version", "", ErrNotRegular},
			{"/proc/self/root/" + root + "/app.rb", "", unix.ELOOP},
			{"/proc/self/fd/0", "", unix.ELOOP},
		} {
			r, err := OpenRoot(root, nobody, new(Gate))
			must(t, err)
			r.old = old
			f, err := r.Open(c.path, 1<<20)
			r.Close()
			got := ""
			if err == nil {
				var b []byte
				b, err = f.ReadAll(1 << 20)
				got = string(b)
				f.Close()
			}
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("old kernel %t: %q gave %q, %v; want %q, %v", old, c.path, got, err, c.want, c.err)
			}
		}
		for _, name := range watch() {
			t.Errorf("old kernel %t: %s was opened", old, name)
		}
	}
}

// watchOpens watches files from now on. The function that it returns lists which of the files have been opened since
// then. An open with O_PATH does not count.
func watchOpens(t *testing.T, files ...string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	byWatch := make(map[int32]string)
	for _, f := range files {
		wd, err := unix.InotifyAddWatch(fd, f, unix.IN_OPEN)
		must(t, err)
		byWatch[int32(wd)] = f
	}
	return func() (out []string) {
		buf := make([]byte, 4096)
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		must(t, err)
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			out = append(out, byWatch[int32(uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24)])
			b = b[unix.SizeofInotifyEvent+int(uint32(b[12])|uint32(b[13])<<8):]
		}
		return out
	}
}

// TestWatchOpens: watchOpens notices an ordinary open. Otherwise TestOpen would never fail.
func TestWatchOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(path, 0o600))
	watch := watchOpens(t, path)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	unix.Close(fd)
	if got := watch(); len(got) != 1 {
		t.Errorf("saw %v", got)
	}
}

// TestOpenRace replaces a file by a pipe and back, again and again, while other threads open the name. No open may
// block, and no open may return the pipe.
func TestOpenRace(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("text"), 0o644))
	must(t, unix.Mkfifo(filepath.Join(dir, "b"), 0o644))
	watch := watchOpens(t, filepath.Join(dir, "b"))
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swaps := 0
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "a"), unix.AT_FDCWD, filepath.Join(dir, "b"), unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			swaps++
		}
	})
	r, err := OpenRoot(dir, nil, new(Gate))
	must(t, err)
	defer r.Close()
	files, pipes := 0, 0
	for end := time.Now().Add(time.Minute); (files < 200 || pipes < 200) && time.Now().Before(end); {
		f, err := r.Open("/a", 100)
		switch {
		case err == nil:
			files++
			if !f.Info().Mode().IsRegular() {
				t.Errorf("got %v", f.Info().Mode())
			}
			f.Close()
		case errors.Is(err, ErrNotRegular):
			pipes++
		default:
			t.Fatal(err)
		}
	}
	close(stop)
	swapping.Wait()
	if files < 200 || pipes < 200 {
		t.Errorf("in a minute %d files and %d pipes at that name, %d exchanges", files, pipes, swaps)
	}
	if opened := watch(); len(opened) > 0 {
		t.Errorf("the pipe was opened %d times", len(opened))
	}
}

// TestRightsAreGivenBack: ddtop opens files with the rights of another user. Afterwards all its threads must have their
// own rights again.
func TestRightsAreGivenBack(t *testing.T) {
	needRoot(t)
	root, _ := world(t)
	r, err := OpenRoot(root, &Rights{UID: 65534, GID: 65533, Groups: []int{1, 7}}, new(Gate))
	must(t, err)
	defer r.Close()
	status := func() map[string]int {
		seen := make(map[string]int)
		tasks, err := filepath.Glob("/proc/self/task/*/status")
		must(t, err)
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if err != nil {
				continue // the thread has ended
			}
			for line := range strings.Lines(string(text)) {
				for _, key := range []string{"Uid:", "Gid:", "Groups:", "CapEff:", "CapPrm:"} {
					if strings.HasPrefix(line, key) {
						seen[strings.TrimSpace(line)]++
					}
				}
			}
		}
		return seen
	}
	before := status()
	var opening sync.WaitGroup
	for range 8 {
		opening.Go(func() {
			for range 50 {
				if f, err := r.Open("/app.rb", 100); err != nil {
					t.Error(err)
				} else {
					f.Close()
				}
				if _, err := r.Open("/secret", 100); !errors.Is(err, unix.EACCES) {
					t.Errorf("the secret: %v", err)
				}
			}
		})
	}
	opening.Wait()
	after := status()
	for line := range after {
		if before[line] == 0 {
			t.Errorf("%d threads have %q, and none had before", after[line], line)
		}
	}
}

// TestRights opens files with the rights of several users. The groups in the rights must have an effect. A capability
// must have an effect only if it is part of the rights. Without the capability, root has no more rights than any other
// user.
func TestRights(t *testing.T) {
	needRoot(t)
	dir, err := os.MkdirTemp("", "ddtop-safefile-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	file := filepath.Join(dir, "f")
	must(t, os.WriteFile(file, nil, 0o640))
	must(t, os.Chmod(file, 0o640))
	must(t, os.Chown(file, 1234, 4321))
	for _, c := range []struct {
		name   string
		rights *Rights
		may    bool
	}{
		{"ours", nil, true},
		{"its owner's", &Rights{UID: 1234, GID: 1}, true},
		{"its group's", &Rights{UID: 1, GID: 4321}, true},
		{"of a supplementary group", &Rights{UID: 1, GID: 1, Groups: []int{5, 4321}}, true},
		{"of another user", &Rights{UID: 1, GID: 1, Groups: []int{5}}, false},
		{"of root without capabilities", &Rights{}, false},
		{"of root", &Rights{Capabilities: readers}, true},
		{"of another user with a capability", &Rights{UID: 1, GID: 1, Capabilities: 1 << unix.CAP_DAC_READ_SEARCH}, true},
	} {
		for _, emulated := range []bool{false, true} {
			r, err := OpenRoot(dir, c.rights, new(Gate))
			must(t, err)
			var f *File
			if emulated { // as if ddtop could not switch to the rights
				f, err = (&Root{dir: r.dir, name: dir, gate: r.gate, old: true}).open("/f", "f", 10, c.rights)
			} else {
				f, err = r.Open("/f", 10)
			}
			if err == nil {
				f.Close()
			}
			r.Close()
			if (err == nil) != c.may || err != nil && !errors.Is(err, unix.EACCES) {
				t.Errorf("rights %s, emulated %t: %v, want allowed %t", c.name, emulated, err, c.may)
			}
		}
	}
}

// TestHungFileSystem opens files of a file system that does not answer. Every call must return within its time limit.
// When a few calls hang, ddtop must not send further calls to the file system.
func TestHungFileSystem(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	if err := unix.Mount("hung", dir, "fuse", 0, "fd="+strconv.Itoa(device)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		unix.Close(device)
		t.Skipf("mounting FUSE: %v", err)
	}
	gate := &Gate{Wait: 50 * time.Millisecond}
	r, err := OpenRoot(filepath.Dir(dir), nil, gate)
	must(t, err)
	start := time.Now()
	for range maxHung + 3 {
		if _, err := r.Open("/"+filepath.Base(dir)+"/file", 10); !errors.Is(err, errHung) {
			t.Errorf("an opening that hangs ended with %v", err)
		}
	}
	if n := gate.hung.Load(); n != maxHung {
		t.Errorf("%d calls hang, want %d", n, maxHung)
	}
	t.Logf("refused after %v", time.Since(start))
	// When the file system is unmounted, the calls that hang return. From then on the gate must not count them as
	// hanging.
	unix.Close(device)
	unix.Unmount(dir, unix.MNT_DETACH)
	for end := time.Now().Add(time.Minute); gate.hung.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d calls still hang", gate.hung.Load())
		}
	}
	r.Close()
}

// TestReadAtHung: a read hangs, and ReadAt gives up. If the read returns data later, the data must not get into the
// caller's memory.
func TestReadAtHung(t *testing.T) {
	in, out, err := os.Pipe()
	must(t, err)
	defer out.Close()
	// The test uses a pipe to imitate a file that hangs. ReadAt does not work with a pipe, because a pipe cannot be
	// read at an offset. So the test calls the gate directly.
	gate := &Gate{Wait: 20 * time.Millisecond}
	late := make(chan string, 1)
	_, err = within(gate, "pipe", func() (string, error) {
		var b [4]byte
		_, err := in.Read(b[:])
		return string(b[:]), err
	}, func(s string) { late <- s })
	if !errors.Is(err, errHung) || gate.hung.Load() != 1 {
		t.Fatalf("%v, %d hang", err, gate.hung.Load())
	}
	_, err = out.WriteString("late")
	must(t, err)
	if s := <-late; s != "late" || gate.hung.Load() != 0 {
		t.Errorf("%q came late, %d hang", s, gate.hung.Load())
	}
}

func TestReadAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	content := make([]byte, 2*maxPiece+100)
	for i := range content {
		content[i] = byte(i * 7 / 5)
	}
	must(t, os.WriteFile(path, content, 0o600))
	r, err := OpenRoot(filepath.Dir(path), nil, new(Gate))
	must(t, err)
	defer r.Close()
	f, err := r.Open("f", 1<<30)
	must(t, err)
	defer f.Close()
	b, err := f.ReadAll(1 << 30)
	if err != nil || string(b) != string(content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if b, err := f.ReadAll(maxPiece + 1); err != nil || string(b) != string(content[:maxPiece+1]) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestLocateLinks: if ddtop runs as root, it follows no link that another user has made. It does follow links of the
// user who called sudo.
func TestLocateLinks(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "root's")
	must(t, os.WriteFile(victim, []byte("kept"), 0o600))
	for _, name := range []string{"file", "folder"} {
		must(t, os.Symlink(map[string]string{"file": victim, "folder": filepath.Dir(victim)}[name], filepath.Join(dir, name)))
		must(t, os.Lchown(filepath.Join(dir, name), 65534, 65534))
	}
	text := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	t.Setenv("SUDO_UID", "")
	t.Setenv("PKEXEC_UID", "")
	for _, path := range []string{"file", "folder/root's", "folder/other"} {
		if err := WriteFile(filepath.Join(dir, path), Waiting{}, text); !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
	t.Setenv("SUDO_UID", "65534")
	must(t, WriteFile(filepath.Join(dir, "file"), Waiting{}, text))
	if b, err := os.ReadFile(victim); err != nil || string(b) != "new" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestMakeFolder: only the owner may use the folders that ddtop makes. If ddtop runs as root, it follows no link of
// another user on the way.
func TestMakeFolder(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "incidents", "today")
	for range 2 {
		folder, err := MakeFolder(path)
		if err != nil {
			t.Fatal(err)
		}
		must(t, folder.WriteFile("f", []byte("x"), 0o600))
		must(t, folder.Close())
	}
	for _, made := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", made, info.Mode(), err)
		}
	}
	if _, err := os.Stat(filepath.Join(path, "f")); err != nil {
		t.Error(err)
	}
	if _, err := MakeFolder(filepath.Join(path, "f", "below")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
	if _, err := MakeFolder(filepath.Join(path, "f")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
	t.Setenv("SUDO_UID", "")
	t.Setenv("PKEXEC_UID", "")
	victim, link := t.TempDir(), filepath.Join(dir, "link")
	must(t, os.Symlink(victim, link))
	must(t, os.Lchown(link, 65534, 65534))
	for _, below := range []string{"", "made"} {
		if _, err := MakeFolder(filepath.Join(link, below)); !errors.Is(err, os.ErrPermission) {
			t.Errorf("through a link of nobody's: %v", err)
		}
	}
	if files, err := os.ReadDir(victim); err != nil || len(files) > 0 {
		t.Errorf("made there: %v, %v", files, err)
	}
}
