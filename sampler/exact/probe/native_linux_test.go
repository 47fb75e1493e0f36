package probe

import (
	"os/exec"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// hostRuby is a Ruby that other programs of the host can run.
func hostRuby(t *testing.T) rubytest.Ruby {
	t.Helper()
	path := rubytest.Program(t, "ruby", "ruby")
	version, err := exec.Command(path, "--disable-gems", "-e", "print RUBY_VERSION").Output()
	if err != nil {
		t.Fatal(err)
	}
	return rubytest.Ruby{Name: "host", Version: string(version), Bin: path}
}

// opened is a running Ruby with what FindCode needs.
func opened(t *testing.T, p *rubytest.Process) (*attach.Process, *attach.Module, []attach.Mapping) {
	t.Helper()
	var module *attach.Module
	proc, err := attach.Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proc.Close() })
	for deadline := time.Now().Add(rubytest.Timeout); ; time.Sleep(time.Millisecond) {
		if module, err = attach.FindRuby(proc); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { module.Close() })
	maps, err := proc.Maps()
	if err != nil {
		t.Fatal(err)
	}
	return proc, module, maps
}
