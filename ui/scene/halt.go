package scene

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// Halt is something that holds all threads of a process from outside. Its finding leads the others: no rule looks at the process
// then, and all of its threads seem to wait for what they did last.
type Halt struct {
	Word    string
	Finding gvl.Finding
}

// HaltOf is what holds a process; nil: nothing does.
func HaltOf(p *sampler.Proc) *Halt {
	switch {
	case p.Frozen:
		return &ProcessFrozen
	case p.Stopped:
		return &ProcessStopped
	}
	return nil
}

var (
	ProcessStopped = Halt{"stopped", gvl.Finding{
		Severity: gvl.SeverityCrit, Title: "The process is stopped",
		Text: "a signal (SIGSTOP, SIGTSTP) or a debugger holds all of its threads: nothing runs",
		Next: "kill -CONT lets it go on after a signal; after a debugger, its own detach",
	}}
	ProcessFrozen = Halt{"frozen", gvl.Finding{
		Severity: gvl.SeverityCrit, Title: "Frozen by its cgroup",
		Text: "the cgroup of the process, or a parent of it, is frozen (docker pause, systemctl freeze): nothing runs",
		Next: "docker unpause or systemctl thaw lets it go on",
	}}
)
