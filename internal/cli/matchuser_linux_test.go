package cli

import (
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// TestUserOfMatch: --user takes a name or a number, and limits --match to the processes of this user. ddtop refuses
// --user without --match, and the name of an unknown user.
func TestUserOfMatch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a process of another user")
	}
	const stranger = 65534
	const m = matchFlag("read user_of_match")
	sh := exec.Command("sh", "-c", "echo ready; read user_of_match")
	sh.Dir = "/"
	sh.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	in, err := sh.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := sh.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	defer sh.Wait()
	defer in.Close() // this ends the shell
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	users := map[userFlag]bool{"": true, "0": false, "root": false, userFlag(strconv.Itoa(stranger)): true}
	if known, err := user.LookupId(strconv.Itoa(stranger)); err == nil {
		users[userFlag(known.Username)] = true
	}
	for of, want := range users {
		find, err := m.finder(of, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(find(func(int) bool { return false }), sh.Process.Pid); got != want {
			t.Errorf("--user %q finds it: %v", of, got)
		}
	}
	for of, match := range map[userFlag]matchFlag{"no-user-has-this": m, "root": ""} {
		if _, err := match.finder(of, func(string) {}); err == nil {
			t.Errorf("--user %s is taken with --match %q", of, match)
		}
	}
}
