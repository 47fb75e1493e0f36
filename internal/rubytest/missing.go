package rubytest

import (
	_ "embed" // the program
	"strings"
	"testing"
)

// missingProgram has a page of memory that it can take away. StartMissing starts it.
//
//go:embed programs/missing.rb
var missingProgram string

// StartMissing starts a program with a thread named "asleep". It can take a page of this thread's stack away. A reader
// of the page then waits until it is given back, as with swap on a disk that hangs. It obeys the lines "take", "give",
// "count" (how often the thread named "busy" has come round) and "exit", with code 7. The test is skipped if the kernel
// has no userfaultfd(2) for this user.
func (r Ruby) StartMissing(t testing.TB, o Options) *Process {
	t.Helper()
	o.Name = "missing.rb"
	p := r.Start(t, missingProgram, o)
	line := p.Line(t)
	if why, skip := strings.CutPrefix(line, "skip "); skip {
		Skip(t, "no page can be kept from coming: %s (root, or sysctl vm.unprivileged_userfaultfd=1)", why)
	}
	if line != "ready" {
		t.Fatalf("the program says %q", line)
	}
	return p
}

// Take takes the page away.
func (p *Process) Take(t testing.TB) {
	t.Helper()
	p.Send(t, "take")
	p.Expect(t, "taken")
}

// Give gives the page back, and waits until the program reports that the page's thread went on.
func (p *Process) Give(t testing.TB) {
	t.Helper()
	p.Send(t, "give")
	p.Expect(t, "given")
}
