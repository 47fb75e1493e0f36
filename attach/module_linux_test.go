package attach

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/attach/mapped"
)

// ownModule opens the program file of this test binary, as a helper process has mapped it.
func ownModule(t *testing.T, p *Process) *Module {
	t.Helper()
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Module(p.exePath(maps), maps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestGoProgramIsNotRuby(t *testing.T) {
	c := startHelper(t, "pages", nil)
	c.line(t)
	p := open(t, c.pid)
	_, err := FindRuby(p)
	if !errors.Is(err, ErrNotRuby) || !strings.Contains(err.Error(), "Go program") {
		t.Errorf("%v, want ErrNotRuby that says it is a Go program", err)
	}
	m := ownModule(t, p)
	if _, _, err := m.RubyVersion(p); !errors.Is(err, ErrNotRuby) {
		t.Errorf("RubyVersion: %v, want ErrNotRuby", err)
	}
	if !m.HasSection(".go.buildinfo") || m.HasSection("nonsense") {
		t.Error("sections")
	}
}

func TestSleepIsNotRuby(t *testing.T) {
	c := startCommand(t, exec.Command("sleep", "60"))
	eventually(t, "sleep", func() bool {
		comm, err := os.ReadFile("/proc/" + itoa(c.pid) + "/comm")
		return err == nil && string(comm) == "sleep\n"
	})
	p := open(t, c.pid)
	var err error
	eventually(t, "sleep's libraries", func() bool {
		_, err = FindRuby(p)
		return errors.Is(err, ErrNotRuby)
	})
	if !strings.Contains(err.Error(), "sleep") && !strings.Contains(err.Error(), "coreutils") {
		t.Errorf("%q does not say what it is", err)
	}
}

// TestModulesOfSleep: what ddtop reads of the C library, from the file and from memory, equals the result of Go's
// package debug/elf.
func TestModulesOfSleep(t *testing.T) {
	c := startCommand(t, exec.Command("sleep", "60"))
	var libc string
	var maps []Mapping
	var p *Process
	eventually(t, "the C library", func() bool {
		q, err := Open(c.pid)
		if err != nil {
			return false
		}
		if p != nil {
			p.Close()
		}
		p = q
		if maps, err = p.Maps(); err != nil {
			return false
		}
		i := slices.IndexFunc(maps, func(m Mapping) bool {
			return strings.HasPrefix(filepath.Base(m.Path), "libc.so") || strings.HasPrefix(filepath.Base(m.Path), "libc-")
		})
		stack := slices.IndexFunc(maps, func(m Mapping) bool { return m.Path == "[stack]" })
		if i < 0 || stack < 0 || filepath.Base(p.Exe()) == "attach.test" {
			return false
		}
		libc = maps[i].Path
		return true
	})
	t.Cleanup(func() { p.Close() })
	m, err := p.Module(libc, maps)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	start := maps[slices.IndexFunc(maps, func(m Mapping) bool { return m.Path == libc && m.Offset == 0 })].Start
	fromMemory, err := mapped.NewModuleFromMemory(libc, p, start)
	if err != nil {
		t.Fatal(err)
	}
	truth, err := elf.Open(libc)
	if err != nil {
		t.Fatal(err)
	}
	defer truth.Close()
	symbols, err := truth.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	byDefault := make(map[string]elf.Symbol) // the symbols that a program gets if it asks for no version
	for _, s := range symbols {
		if _, ok := byDefault[s.Name]; !ok && !s.VersionIndex.IsHidden() {
			byDefault[s.Name] = s
		}
	}
	hidden := 0
	for _, first := range symbols {
		if seen[first.Name] || first.Name == "" {
			continue
		}
		seen[first.Name] = true
		for how, m := range map[string]*Module{"file": m, "memory": fromMemory} {
			s := first
			if d, ok := byDefault[s.Name]; ok && how == "file" { // in memory, versions are not read
				s = d
				if d.Value != first.Value {
					hidden++
				}
			}
			if s.Section == elf.SHN_UNDEF {
				if !m.Undefined(s.Name) {
					t.Errorf("%s: %s is not undefined", how, s.Name)
				}
				continue
			}
			got, ok := m.Exported(s.Name)
			want := m.Bias + Address(s.Value)
			if got.TLS || s.Section == elf.SHN_ABS {
				want = Address(s.Value)
			}
			if !ok || got.Addr != want || got.Size != s.Size || !got.Exported {
				t.Fatalf("%s: %s is %+v, %t; want %v", how, s.Name, got, ok, want)
			}
		}
	}
	if len(seen) < 1000 || hidden == 0 {
		t.Errorf("only %d symbols compared, %d of which have an older version before", len(seen), hidden)
	}
	if m.Bias != fromMemory.Bias || m.Machine != fromMemory.Machine || !slices.Equal(m.Writable(), fromMemory.Writable()) || !slices.Equal(m.Needs(), fromMemory.Needs()) || m.Bias != start {
		t.Errorf("from the file: %v %s %v %v\nfrom memory: %v %s %v %v", m.Bias, m.Machine, m.Writable(), m.Needs(),
			fromMemory.Bias, fromMemory.Machine, fromMemory.Writable(), fromMemory.Needs())
	}
	if len(m.BuildID) != 40 || fromMemory.BuildID != "" && fromMemory.BuildID != m.BuildID {
		t.Errorf("build id %q, from memory %q", m.BuildID, fromMemory.BuildID)
	}
	for _, s := range m.Writable() {
		if s.Len() <= 0 || !slices.ContainsFunc(m.Loads, func(l Span) bool { return l.Start <= s.Start && s.Start < l.End }) {
			t.Errorf("writable %v", s)
		}
		if err := p.Read(s.Start, make([]byte, s.Len())); err != nil {
			t.Errorf("the variables can't be read: %v", err)
		}
	}
}

func TestModuleOfADeletedFile(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		binary := copyOfMyself(t, "")
		c := startHelper(t, "pages", func(cmd *exec.Cmd) { cmd.Path = binary })
		c.line(t)
		if err := os.Remove(binary); err != nil {
			t.Fatal(err)
		}
		if replaced {
			if err := os.WriteFile(binary, []byte("another program"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		p := open(t, c.pid)
		m := ownModule(t, p)
		if !m.Deleted {
			t.Error("the module does not say that its file is gone")
		}
		if !m.HasSection(".go.buildinfo") && os.Geteuid() == 0 {
			t.Error("not the file behind /proc/PID/map_files")
		}
		if p.Exe() != binary {
			t.Errorf("exe %q, want %q", p.Exe(), binary)
		}
	}
}

func TestModuleInAnotherMountNamespace(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs none "$1" && cp "$2" "$1/hidden" && exec "$1/hidden"`, "sh", dir, self)
	cmd.Env = append(os.Environ(), helperMode+"=pages")
	c := startCommand(t, cmd)
	if _, err := c.lines.Peek(1); err != nil {
		t.Skip("unshare -m or mount is not allowed here")
	}
	c.line(t)
	if _, err := os.Stat(filepath.Join(dir, "hidden")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the file shows up here: %v", err)
	}
	p := open(t, c.pid)
	m := ownModule(t, p)
	if !m.HasSection(".go.buildinfo") {
		t.Error("not the file below /proc/PID/root")
	}
}

func TestModuleOfAFileThatIsNotMapped(t *testing.T) {
	c := startHelper(t, "pages", nil)
	c.line(t)
	p := open(t, c.pid)
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Module("/etc/passwd", maps); err == nil {
		t.Error("/etc/passwd is mapped")
	}
	i := slices.IndexFunc(maps, func(m Mapping) bool { return m.IsFile() })
	other := maps[i]
	other.Path, other.Inode = "/etc/passwd", other.Inode+1
	if f, err := p.openMapped(other); err == nil {
		f.Close()
		if f.Name() == "/etc/passwd" {
			t.Error("a file of the right name and other content is taken")
		}
	}
}

// TestOpenMappedByContent: with overlay file systems, the inode in /proc/PID/maps can differ from the file's. ddtop
// opens the file if its content equals the memory.
func TestOpenMappedByContent(t *testing.T) {
	c := startHelper(t, "pages", nil)
	c.line(t)
	p := open(t, c.pid)
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(maps, func(m Mapping) bool { return m.IsFile() && m.Offset == 0 })
	other := maps[i]
	other.Inode++
	f, err := p.openMapped(other)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !strings.HasSuffix(f.Name(), other.Path) {
		t.Errorf("opened %s, want %s by its content", f.Name(), other.Path)
	}
}

func TestOpenMappedDoesNotWaitForAPipe(t *testing.T) {
	c := startHelper(t, "pages", nil)
	c.line(t)
	p := open(t, c.pid)
	pipe := filepath.Join(t.TempDir(), "libruby.so.3.4")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.openMapped(Mapping{Start: 0x1000, End: 0x2000, Inode: 5, Device: "00:01", Path: pipe}); err == nil {
		t.Error("a pipe is taken for a mapped file")
	}
}

func TestLoadBias(t *testing.T) {
	progs := []*elf.Prog{
		{ProgHeader: elf.ProgHeader{Type: elf.PT_NOTE}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Off: 0x1000, Vaddr: 0x401000, Filesz: 5}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Off: 0x2e10, Vaddr: 0x404e10, Filesz: 5}},
	}
	for _, test := range []struct {
		maps []Mapping
		want Address
		ok   bool
	}{
		{[]Mapping{{Start: 0x401000, Offset: 0x1000}}, 0, true},
		{[]Mapping{{Start: 0x7f0000000000}, {Start: 0x7f0000004000, Offset: 0x2000}}, 0x7effffc00000, true},
		{[]Mapping{{Start: 0x7f0000000000}}, 0, false},
		{nil, 0, false},
	} {
		got, err := mapped.LoadBias(progs, test.maps)
		if got != test.want || (err == nil) != test.ok {
			t.Errorf("%v: %v, %v; want %v", test.maps, got, err, test.want)
		}
	}
}

func TestNewModuleRefusesOtherFiles(t *testing.T) {
	if _, err := mapped.NewModule("x", strings.NewReader("hello"), 0, nil); err == nil {
		t.Error("text is taken for ELF")
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	small := slices.Clone(self[:64])
	small[4] = byte(elf.ELFCLASS32)
	if _, err := mapped.NewModule("x", strings.NewReader(string(small)), 0, nil); err == nil {
		t.Error("a broken 32-bit header is taken")
	}
}
