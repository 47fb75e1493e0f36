package rubytest

import (
	_ "embed" // embeds the program
	"strings"
	"testing"
)

// missingProgram is a Ruby program that can make a page of its own memory unreadable for a while (StartMissing).
//
//go:embed programs/missing.rb
var missingProgram string

// StartMissing starts a program that can make a page of its memory unreadable: a page of the stack of its thread
// "asleep". A process that reads the page then waits until the program makes the page readable again. The same happens
// with swap on a disk that hangs. The program obeys the lines "take", "give", "count" and "exit". "count" prints how
// many loops the thread named "busy" has done. After "exit" the exit code is 7. The test is skipped if the kernel has
// no userfaultfd(2) for this user.
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

// Take makes the page unreadable.
func (p *Process) Take(t testing.TB) {
	t.Helper()
	p.Send(t, "take")
	p.Expect(t, "taken")
}

// Give makes the page readable again. It waits until the program reports that the thread "asleep", to whose stack the
// page belongs, has continued.
func (p *Process) Give(t testing.TB) {
	t.Helper()
	p.Send(t, "give")
	p.Expect(t, "given")
}
