package code

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// Attempt is the kind of a call that does no work itself: the call only waits, or tries whether something is possible.
// A thread that repeats such calls while it holds the GVL may be waiting in a loop (spinning).
type Attempt uint8

const (
	// AttemptPause is a call that waits for a time, a thread or a descriptor.
	AttemptPause Attempt = 1 << iota
	// AttemptAsk is a call that asks whether something has happened, or lets other threads run.
	AttemptAsk
	// AttemptRead and AttemptWrite are calls that read or write, and return at once if they would have to wait.
	AttemptRead
	AttemptWrite
)

// attempts maps the calls in which threads only wait or try something to their kinds. The keys are labels of Ruby 3.4,
// without "Thread::" at their beginning.
var attempts = func() map[string]Attempt {
	m := make(map[string]Attempt)
	for a, labels := range attemptLabels {
		for _, l := range labels {
			m[l] = a
		}
	}
	return m
}()

var attemptLabels = map[Attempt][]string{
	AttemptPause: {
		"Kernel#sleep", "IO.select", "Kernel#select", "Mutex#sleep", "ConditionVariable#wait", "Queue#pop",
		"SizedQueue#pop", "Thread#join", "Thread#value", "IO#wait", "IO#wait_readable", "IO#wait_writable",
		"Monitor#wait_for_cond",
	},
	AttemptAsk: {
		"Thread.pass", "Mutex#try_lock", "Mutex#locked?", "Monitor#try_enter", "Thread#alive?", "Thread#status",
		"Thread#stop?", "Queue#empty?", "Queue#length", "Queue#size", "Queue#num_waiting", "SizedQueue#empty?",
		"SizedQueue#length", "Process.wait", "Process.wait2", "Process.waitpid", "Process.waitpid2",
		"Process.kill", "IO#ready?", "IO#nread", "File.exist?", "File.file?",
	},
	AttemptRead: {
		"IO#read_nonblock", "IO#__read_nonblock", "BasicSocket#__recv_nonblock", "BasicSocket#recv_nonblock",
		"BasicSocket#__read_nonblock", "BasicSocket#__recvmsg_nonblock", "Socket#__accept_nonblock",
		"TCPServer#__accept_nonblock", "UNIXServer#__accept_nonblock",
		"OpenSSL::SSL::SSLSocket#sysread_nonblock",
	},
	AttemptWrite: {
		"IO#write_nonblock", "IO#__write_nonblock", "BasicSocket#__write_nonblock",
		"BasicSocket#__sendmsg_nonblock", "OpenSSL::SSL::SSLSocket#syswrite_nonblock",
		"Socket#__connect_nonblock",
	},
}

// maxAttemptFrames limits how many frames AttemptOf examines. One frame is not enough, because one call of a method of
// Ruby itself can have several frames. For example, <internal:io> has a method that calls IO#__write_nonblock.
const maxAttemptFrames = 6

// AttemptOf returns the kind of attempt that the innermost call of a stack makes, or zero if it makes none. A method of
// Ruby itself counts as a call even if it is written in Ruby.
func AttemptOf(dict *sampler.Dictionary, stack sampler.StackID) Attempt {
	for _, f := range Frames(dict, stack, maxAttemptFrames) {
		if a := attempts[strings.TrimPrefix(Method(f.Label), "Thread::")]; a != 0 {
			return a
		}
		if !strings.HasPrefix(f.Path, "<internal:") {
			return 0
		}
	}
	return 0
}
