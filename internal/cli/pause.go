package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

const pauseHelp = `
--pause stops all threads with ptrace while stacks are read, so that each sample shows one instant of all threads.
Reads of the GVL never stop the process. A stop is limited: after 5 ms the process goes on, and the sample counts as
cut. Stops take at most a tenth of the time. With many threads, stacks are therefore read less often. ddtop measures
and reports the length of stops. A stop interrupts system calls in which threads sleep. The kernel restarts most of
them, but epoll_wait and a few others fail with EINTR. --pause is refused while a debugger or strace is attached. If
ddtop is killed, the process goes on. --pause does not help with Ruby 2.5 to 2.7, and 3.1 with YJIT: they publish a
frame before it is filled.`

// addPause adds --pause, and what it means to the command's help.
func (t *target) addPause(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.pause, "pause", false, "stop all threads while stacks are read, each time for at most about 5 ms")
	cmd.Long += "\n" + pauseHelp
}

// stayAwake keeps job control from stopping ddtop in the middle of a pause, with the process stopped until somebody says
// "fg": ctrl-z, and writing to a terminal from the background.
func stayAwake() { signal.Ignore(syscall.SIGTSTP, syscall.SIGTTOU, syscall.SIGTTIN) }

// pausable reports whether waitForEnd works for a child (from Linux 5.4 on).
func pausable(p *os.Process) bool { return p.WithHandle(func(uintptr) {}) == nil }

// waitForEnd waits until a child has ended, without asking for its exit code: whoever asks while the same program traces
// the child would take its stops for exits, as os/exec does. Where that can't be told it returns at once.
func waitForEnd(p *os.Process) { _ = p.WithHandle(waitReadable) }
