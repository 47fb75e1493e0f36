package attach_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// sleeper prints what Ruby reports about itself, and waits.
const sleeper = `$stdout.sync = true
puts [RUBY_VERSION, RUBY_DESCRIPTION, Process.pid].join("|")
sleep`

func TestFindRuby(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		c := r.Start(t, sleeper, rubytest.Options{Name: "sleeper.rb", Args: []string{"--token=secret"}})
		said := strings.Split(c.Line(t), "|")
		p, err := attach.Open(c.PID)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		m, err := attach.FindRuby(p)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		version, description, err := m.RubyVersion(p)
		// RUBY_DESCRIPTION also shows how Ruby was started (+PRISM). The description that was compiled into the file
		// does not.
		compiled := strings.ReplaceAll(said[1], "+PRISM ", "")
		if err != nil || version != said[0] || description != compiled {
			t.Errorf("%q, %q, %v; Ruby says %q, %q", version, description, err, said[0], said[1])
		}
		if p.Title() != "sleeper.rb" {
			t.Errorf("title %q", p.Title())
		}
		// Debian compiles Ruby 3.3 and later on amd64 with -fcf-protection, so Ruby uses _setjmp of the C library
		// (config.h). On arm64, Ruby 3.4 and later use _setjmp without such an option.
		jmpBuf := r.AtLeast(3, 3)
		if m.Machine == "aarch64" {
			jmpBuf = r.AtLeast(3, 4)
		}
		if r.Root != "" && m.JmpBuf() != jmpBuf {
			t.Errorf("jmp_buf is %t", m.JmpBuf())
		}
		if _, match, err := layout.For(version, m.Machine, m.JmpBuf()); err != nil || !match.Exact && !strings.Contains(match.Note, "in development") {
			t.Errorf("its layout: %+v, %v", match, err)
		}
		if len(m.Writable()) == 0 || m.BuildID == "" || m.Bias == 0 {
			t.Errorf("writable %v, build id %q, bias %v", m.Writable(), m.BuildID, m.Bias)
		}
		// Ruby up to 3.2 exports the pointer to its VM (vm.c). From 3.3 on, the pointer's symbol is hidden.
		if s, ok := m.Exported("ruby_current_vm_ptr"); ok == r.AtLeast(3, 3) {
			t.Errorf("ruby_current_vm_ptr: %+v, %t", s, ok)
		}
		inList(t, c.PID, version)
	})
}

func inList(t *testing.T, pid int, version string) {
	t.Helper()
	start := time.Now()
	list, err := attach.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the list of %d took %v", len(list), time.Since(start))
	i := slices.IndexFunc(list, func(c attach.Candidate) bool { return c.PID == pid })
	if i < 0 {
		t.Fatalf("%d is not in the list %+v", pid, list)
	}
	c := list[i]
	if c.Version != version || c.Err != nil || c.Title != "sleeper.rb" || c.PPID != os.Getpid() || c.Threads < 1 ||
		c.User == "" || !slices.Contains(c.Arguments, "--token=secret") {
		t.Errorf("the list says %+v", c)
	}
	if slices.ContainsFunc(list, func(c attach.Candidate) bool { return c.PID == os.Getpid() }) {
		t.Error("the list holds the lister")
	}
	if !slices.IsSortedFunc(list, func(a, b attach.Candidate) int { return a.PID - b.PID }) {
		t.Error("the list is not in order")
	}
}

// TestFindRubyWithoutItsFile: what ddtop reads from Ruby's code in memory equals what it reads from Ruby's file. After
// an upgrade the file is gone, and a running process has only the memory.
func TestFindRubyWithoutItsFile(t *testing.T) {
	r := rubytest.One(t)
	c := r.Start(t, sleeper, rubytest.Options{})
	c.Line(t)
	p, err := attach.Open(c.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, err := attach.FindRuby(p)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(maps, func(x attach.Mapping) bool { return x.Path == m.Path && x.Offset == 0 })
	again, err := mapped.NewModuleFromMemory(m.Path, p, maps[i].Start)
	if err != nil {
		t.Fatal(err)
	}
	v1, d1, err1 := m.RubyVersion(p)
	v2, d2, err2 := again.RubyVersion(p)
	if err1 != nil || err2 != nil || v1 != v2 || d1 != d2 {
		t.Errorf("from the file %q %q %v, from memory %q %q %v", v1, d1, err1, v2, d2, err2)
	}
	if m.JmpBuf() != again.JmpBuf() || m.Bias != again.Bias || !slices.Equal(m.Writable(), again.Writable()) {
		t.Errorf("from the file %t %v %v, from memory %t %v %v", m.JmpBuf(), m.Bias, m.Writable(), again.JmpBuf(), again.Bias, again.Writable())
	}
}

// TestRubyThatStartsIsNeverCalledAnotherProgram: at any moment while Ruby starts, FindRuby finds it or returns
// ErrNotLoaded. It never returns ErrNotRuby.
func TestRubyThatStartsIsNeverCalledAnotherProgram(t *testing.T) {
	r := rubytest.One(t)
	exe := filepath.Base(r.Bin)
	notLoaded := 0
	for range 20 {
		cmd := exec.Command(r.Bin, "-e", "sleep")
		if r.Root != "" {
			if os.Geteuid() != 0 {
				rubytest.Skip(t, "chroot needs root")
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: r.Root}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		found := false
		for end := time.Now().Add(rubytest.Timeout); !found && time.Now().Before(end); {
			found = tryStarting(t, cmd.Process.Pid, exe, &notLoaded)
		}
		cmd.Process.Kill()
		cmd.Wait()
		if !found {
			t.Fatal("no Ruby found in time")
		}
	}
	t.Logf("%d times not loaded yet", notLoaded)
}

func tryStarting(t *testing.T, pid int, exe string, notLoaded *int) bool {
	t.Helper()
	p, err := attach.Open(pid)
	if err != nil {
		return false
	}
	defer p.Close()
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil || strings.TrimSpace(string(comm)) != exe {
		return false
	}
	m, err := attach.FindRuby(p)
	switch {
	case err == nil:
		m.Close()
		return true
	case errors.Is(err, attach.ErrNotLoaded):
		*notLoaded++
	case p.Check() == nil:
		t.Errorf("a starting Ruby: %v", err)
	}
	return false
}
