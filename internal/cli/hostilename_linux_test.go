package cli_test

import (
	"strconv"
	"strings"
	"testing"
)

// TestHostileNames: the name of a process contains control characters and shell commands. ddtop prints no control
// characters. The shell's completion offers nothing that the shell would execute.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	name := unlike(t, "hostile")
	p := named(t, name+"\x1b[31m\x1b]0;x\a\n$(reboot);`reboot`")
	typable := named(t, name+"-web 6.4")
	pid := strconv.Itoa(p.PID)
	for _, args := range [][]string{{"doctor", pid, "--overhead", "off"}, {"dump", name + "\x1b"}, {"dump", name}, {"__complete", "dump", ""}} {
		r := run(t, args...)
		if !strings.Contains(r.out+r.err, pid) {
			t.Errorf("%v: the process is not in %q, %q", args, r.out, r.err)
		}
		if strings.ContainsAny(r.out+r.err, "\x1b\a") {
			t.Errorf("%v printed %q, %q", args, r.out, r.err)
		}
	}
	for _, command := range []string{"dump", "stat", "doctor"} {
		r := run(t, "__complete", command, name)
		r.want(t, 0)
		if lines := strings.Split(r.out, "\n"); lines[0] != name+"-web" || !strings.HasPrefix(lines[1], ":") {
			t.Errorf("%s is completed to %q, want the name of process %d alone", name, r.out, typable.PID)
		}
	}
	for _, word := range []string{"", " "} {
		run(t, "dump", word).want(t, 2, "an empty word")
	}
}
