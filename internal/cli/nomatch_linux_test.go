package cli_test

import (
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestMatchSaysThatNothingMatches: if no Ruby matches --match, `ddtop push` logs that nothing matches. A shell or a
// sudo with the same words in its command line is no Ruby. If a Ruby matches, ddtop does not log this. The test ends
// each ddtop at once, even while it opens its folder.
func TestMatchSaysThatNothingMatches(t *testing.T) {
	t.Parallel()
	name := unlike(t, "wrapped")
	shell := exec.Command("sh", "-c", "read line; : "+name)
	keep, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = io.WriteString(keep, "end\n") // ignore the error: the shell may have ended already
		_ = shell.Wait()
	})
	push := func(says string) pusher {
		t.Helper()
		p := startPush(t, "--match", name, "--to", "file://"+filepath.Join(t.TempDir(), "profiles"), "--period", "1s")
		p.await(t, says, func() bool { return strings.Contains(p.log.String(), says) })
		return p
	}
	const none = "no Ruby process matches --match "
	push(none + name + " now; those that come later are followed").end(t)
	ruby := rubytest.One(t).Start(t, "$0 = '"+name+"'; $stdout.sync = true; puts 'up'; STDIN.gets", rubytest.Options{})
	ruby.Expect(t, "up")
	p := push("msg=following pid=" + strconv.Itoa(ruby.PID))
	p.end(t)
	if strings.Contains(p.log.String(), none) {
		t.Errorf("beside a Ruby it said:\n%s", p.log)
	}
}
