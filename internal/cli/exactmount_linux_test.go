package cli_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// TestExactBehindAMount: a process mounts a file system over the folder of its libruby, and puts a pipe in the
// library's place. So the library's path leads to the pipe. ddtop runs with capabilities, but not as root. It must not
// open the pipe, and must put the probes into the file that the process has mapped.
func TestExactBehindAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		rubytest.Skip(t, "needs root")
	}
	if err := probe.Try(false); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	setpriv := rubytest.Program(t, "setpriv", "util-linux")
	// The test needs a Ruby that is installed on the host itself. A library in a chroot has a path that does not exist
	// outside.
	r := rubytest.Ruby{Name: "host", Bin: rubytest.Program(t, "ruby", "ruby")}
	p := r.Start(t, `$stdout.sync = true
3.times { Thread.new { loop { 20_000.times { }; sleep 0.001 } } }
MOUNT = 165 # on x86_64
c = RbConfig::CONFIG
library = File.realpath(Dir["#{c["libdir"]}/**/#{c["LIBRUBY_SO"]}"].first)
syscall(MOUNT, "none", File.dirname(library), "tmpfs", 0, 0)
File.mkfifo(library)
puts library
$stdin.gets`, rubytest.Options{OwnMounts: true})
	library := p.Line(t)
	if info, err := os.Stat("/proc/" + strconv.Itoa(p.PID) + "/root" + library); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("%s: %v, %v", library, info, err)
	}
	const rights = "+sys_ptrace,+dac_read_search,+bpf,+perfmon"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, setpriv, "--reuid=65532", "--regid=65532", "--clear-groups", "--inh-caps="+rights, "--ambient-caps="+rights, "--",
		ddtop, "stat", "--exact", "--exact-cost", "off", "-d", "500ms", strconv.Itoa(p.PID))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "exact, ") || strings.Contains(string(out), "nothing is told") {
		t.Errorf("%v:\n%s", err, out)
	}
	if n := rubytest.ChangedCode(t, p.PID); n != 0 {
		t.Errorf("%d bytes of its code are not the files'", n)
	}
}
