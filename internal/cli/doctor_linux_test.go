package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestDoctor: `ddtop doctor` checks a process that can be read, lists the results, and ends with a line that sums them
// up. The exit code is 1 if a check failed. With --pause, doctor also tries to stop the process. Wrong settings are a
// failed check. With --redact, the output has no names.
func TestDoctor(t *testing.T) {
	name := unlike(t, "patient")
	p := named(t, name+" (secret)")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	r := run(t, "doctor", name, "--overhead", "off")
	for _, want := range []string{"ddtop 0.", "· user ", "/proc ", "✓ schedstat", "· terminal", "✓ rubies", "✓ memory", "process " + strconv.Itoa(p.PID), "✓ ruby", "· context     it publishes no process context",
		"· pause", " rates ", "(asked for 1000 and 100)", "limit off", " exact ", "--exact", "· perf, BPF"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	if failed := strings.Contains(r.out, "✗"); r.code != 0 && r.code != 1 || (r.code == 1) != failed {
		t.Errorf("code %d, and it says\n%s", r.code, r.out)
	}
	if verdict := regexp.MustCompile(`\n(✓ verdict     ddtop works here; \d+ checks|✗ verdict     \d+ of \d+ checks failed, first .+)\n$`); !verdict.MatchString(r.out) {
		t.Errorf("no verdict at the end of\n%s", r.out)
	}
	if strings.Contains(r.out, "secret") {
		t.Errorf("arguments are in\n%s", r.out)
	}
	if r = run(t, "doctor", name, "--redact"); strings.Contains(r.out, name) || strings.Contains(r.out, "/tmp") {
		t.Errorf("with --redact it says\n%s", r.out)
	}
	r = run(t, "doctor", "-p", strconv.Itoa(p.PID), "--json", "--pause")
	var checks []struct{ Name, State, Text, Remedy string }
	if err := json.Unmarshal([]byte(r.out), &checks); err != nil || len(checks) < 10 {
		t.Fatalf("%v, %d checks in %s", err, len(checks), r.out)
	}
	if last := checks[len(checks)-1]; last.Name != "verdict" {
		t.Errorf("the last check is %+v, not the verdict", last)
	}
	paused := false
	for _, c := range checks {
		paused = paused || c.Name == "pause" && c.State == "ok"
		if c.Text == "" || c.State != "ok" && c.State != "note" && c.State != "wrong" {
			t.Errorf("a check is %+v", c)
		}
	}
	if !paused {
		t.Errorf("--pause tried none: %s", r.out)
	}
	run(t, "doctor", "nonsense-of-no-process").want(t, 4, "nonsense-of-no-process")
	run(t, "doctor", "-p", "0").want(t, 2, "0 is not a process")

	folder := os.Getenv("XDG_CONFIG_HOME")
	if err := os.MkdirAll(filepath.Join(folder, "ddtop"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "ddtop", "config.toml"), []byte("theme = \"pink\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = run(t, "doctor", "-p", strconv.Itoa(p.PID))
	r.want(t, 1, "checks failed")
	if !strings.Contains(r.out, "✗ settings") || !strings.Contains(r.out, "config.toml:1") {
		t.Errorf("what is wrong in the settings is not in\n%s", r.out)
	}
}

// TestDoctorWithoutPermission: if a user may not read a process, `ddtop doctor` says why.
func TestDoctorWithoutPermission(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		rubytest.Skip(t, "becoming another user needs root")
	}
	p := named(t, unlike(t, "patient"))
	cmd, out, errs := prepare(t.Context(), "doctor", "-p", strconv.Itoa(p.PID))
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "XDG_CONFIG_HOME=/nonexistent")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: nobody}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := finish(t, cmd, out, errs)
	if r.code != 1 || !strings.Contains(r.out, "CAP_SYS_PTRACE no") || !strings.Contains(r.out, "✗ "+strconv.Itoa(p.PID)) || !strings.Contains(r.out, "belongs to user root") {
		t.Errorf("code %d; it said\n%s%s", r.code, r.out, r.err)
	}
}
