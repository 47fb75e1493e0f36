package cli

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// TestPtraceRemedy: if the kernel restricts ptrace, `ddtop doctor` recommends only what helps with the rights and
// settings of this machine.
func TestPtraceRemedy(t *testing.T) {
	for _, c := range []struct {
		rights       attach.Rights
		names, never []string
	}{
		{attach.Rights{Yama: 1, CanBecomeRoot: true}, []string{"sudo`", "ptrace_scope=0", "ddtop -- COMMAND", "PR_SET_PTRACER"}, []string{"--cap-add"}},
		{attach.Rights{Yama: 1}, []string{"--cap-add=SYS_PTRACE", "ddtop -- COMMAND", "PR_SET_PTRACER"}, nil},
		{attach.Rights{Yama: 2}, []string{"--cap-add=SYS_PTRACE"}, []string{"ddtop -- COMMAND", "PR_SET_PTRACER", "ptrace_scope=0"}},
	} {
		got := ptraceRemedy(c.rights)
		for _, want := range c.names {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: %q lacks %q", c.rights, got, want)
			}
		}
		for _, not := range c.never {
			if strings.Contains(got, not) {
				t.Errorf("%+v: %q has %q", c.rights, got, not)
			}
		}
	}
}
