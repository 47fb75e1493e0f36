package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// reusePID is a script that runs as the first process of a PID namespace. It starts a Ruby, lets ddtop watch it, and
// stops ddtop. Then it kills the Ruby and starts another one with the same PID. Address randomization is off, so both
// Rubies have the same addresses. At the end the script continues ddtop. Its arguments are ddtop, Ruby's root folder
// and binary, and a folder.
const reusePID = `
ddtop=$1 root=$2 ruby=$3 dir=$4
launch() { # name
	setarch "$(uname -m)" -R ${root:+chroot "$root"} "$ruby" -e "\$stdout.sync = true; def $1 = (puts 'up'; loop { 1 + 1 }); Thread.new { sleep }; $1" > "$dir/$1" 2>&1 &
}
until_up() { until grep -q up "$dir/$1"; do sleep 0.05; done; }
launch the_target; pid=$!
until_up the_target
"$ddtop" record -p $pid -d 600s --format collapsed -o "$dir/stacks" > "$dir/said" 2>&1 &
watcher=$!
until ls -l /proc/$watcher/fd | grep -q schedstat; do sleep 0.05; done # the first tick has begun
reads() { sed -n 's/^syscr: //p' /proc/$watcher/io; }
first=$(reads); until [ "$(reads)" -gt $((first + 100)) ]; do sleep 0.05; done # and many have ended: each reads files of /proc
kill -STOP $watcher
until grep -q '^State:.*stopped' /proc/$watcher/status; do sleep 0.05; done
kill -9 $pid; wait $pid
for try in 1 2 3 4 5; do
	echo $((pid - 1)) > /proc/sys/kernel/ns_last_pid || break
	launch the_newcomer; again=$!
	[ $again = $pid ] && break
	kill -9 $again; wait $again
done
if [ $again != $pid ]; then echo "no second process $pid: $again"; kill -9 $watcher; exit 3; fi
until_up the_newcomer
kill -CONT $watcher
wait $watcher; echo "code $?"
"$ddtop" record -p $pid -d 1s --format collapsed -o "$dir/newcomer" > /dev/null 2>&1; echo "code $?"
kill -9 $again
exit 0
`

// TestReusedPID: the target ends while ddtop is stopped, and another process gets its PID. ddtop must report that the
// target has ended. It must read nothing of the new process, even though its memory has the same layout.
func TestReusedPID(t *testing.T) {
	if os.Geteuid() != 0 {
		rubytest.Skip(t, "a PID namespace of one's own needs root")
	}
	r := rubytest.One(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", reusePID, "sh", ddtop, r.Root, r.Bin, dir)
	out, err := cmd.CombinedOutput()
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Errorf("%v; the script said %q", err, out)
		}
		return string(b)
	}
	if err != nil {
		if strings.Contains(string(out), "unshare") || strings.Contains(string(out), "ns_last_pid") {
			rubytest.Skip(t, "no PID namespace can be made here, or no PID chosen in it: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	if got, want := string(out), "code 0\ncode 0\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the exit codes of watching both are %q", got)
	}
	stacks, said := read("stacks"), read("said")
	if !strings.Contains(stacks, "the_target") || strings.Contains(stacks, "the_newcomer") {
		t.Errorf("the stacks of the process that ended are\n%s", stacks)
	}
	if !strings.Contains(said, "exited") {
		t.Errorf("of the end it said %q", said)
	}
	if stacks := read("newcomer"); !strings.Contains(stacks, "the_newcomer") {
		t.Errorf("the stacks of the newcomer, which can be read, are\n%s", stacks)
	}
}
