package cli

import (
	"github.com/spf13/cobra"
)

const pauseHelp = `
--pause stops all threads with ptrace while stacks are read (GVL reads never stop it), so that a sample is one
instant of all threads. A pause is bounded: past 5 ms the process goes on and the sample counts as cut. Pauses
take a tenth of the time at most: with many threads stacks are read less often. Their length is measured and
reported. They interrupt the system calls that threads sleep in (the kernel restarts them, but epoll_wait and a
few others fail with EINTR). While a debugger or strace is attached --pause is refused. If ddtop is killed, the
process goes on. It does not help with Ruby 2.5 to 2.7, and 3.1 with YJIT, which publish a frame before they
have filled it.`

// addPause adds --pause, and what it means to the command's help.
func (t *target) addPause(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.pause, "pause", false, "stop all threads while stacks are read, each time for some 5 ms at most")
	cmd.Long += "\n" + pauseHelp
}
