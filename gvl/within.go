package gvl

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// The values of Detail.Within.
const (
	WithinEnd       = "an at_exit hook or a finalizer, at the program's end"
	WithinInterrupt = "a signal's handler or a finalizer, which has interrupted the program"
)

// maxWithinFrames limits how many frames of a stack wordsOf searches, from the innermost frame outward.
const maxWithinFrames = 2000

// within computes Detail.Within: the hook or handler that the main thread runs, such as an at_exit block or a signal
// handler. It remembers the result for the last stack, to save work.
type within struct {
	stack sampler.StackID
	root  bool
	text  string
}

// wordsOf returns Detail.Within for the main thread, by its stack.
//
// Normally the outermost frame is the program's file, <main>. If it is a block, Ruby runs a hook at the program's end,
// with two exceptions. First, the stack may belong to a fiber. Second, the process may have been forked by a thread
// other than the main one. Then the outermost frame is a block of the forking thread, and the stack has a call of fork.
//
// A handler is found in another way. Some C functions never call a block (waitsAlone). If the stack shows that such a
// function called a block, Ruby has interrupted the function for a signal or a finalizer.
func (w *within) wordsOf(dict *sampler.Dictionary, t *sampler.Thread) string {
	root := t.Bits&sampler.BitRootFiber != 0
	if t.Stack == 0 || dict == nil || t.Quality&(sampler.StackFailed|sampler.StackPartial) != 0 {
		return ""
	}
	if t.Stack == w.stack && root == w.root {
		return w.text
	}
	w.stack, w.root, w.text = t.Stack, root, ""
	block, interrupted := false, false // about the previous frame, which is one step further in
	forked := false
	at := t.Stack
	for range maxWithinFrames {
		caller, id := dict.Stack(at)
		f := dict.Frame(id)
		interrupted = interrupted || block && f.C && waitsAlone[f.Label]
		forked = forked || f.C && forks[f.Label]
		block = strings.HasPrefix(f.Label, "block ")
		if caller == 0 {
			switch {
			case interrupted:
				w.text = WithinInterrupt
			case root && block && !forked:
				w.text = WithinEnd
			}
			break
		}
		at = caller
	}
	return w.text
}

// forks has the C functions that fork and run a block in the child.
var forks = map[string]bool{"Kernel#fork": true, "Kernel.fork": true, "Process.fork": true, "IO.popen": true}

// waitsAlone has C functions that wait, or send a signal, and never call a block. If a block is called in such a
// function, Ruby has interrupted the function.
var waitsAlone = map[string]bool{
	"Thread#join": true, "Thread#value": true, "Process.kill": true, "Kernel#sleep": true, "Thread.stop": true,
	"Thread::Queue#pop": true, "Queue#pop": true, "Thread::SizedQueue#pop": true, "SizedQueue#pop": true, "Thread::SizedQueue#push": true,
	"SizedQueue#push": true, "Thread::Mutex#lock": true, "Mutex#lock": true, "Thread::Mutex#sleep": true, "Mutex#sleep": true,
	"Process.wait": true, "Process.wait2": true, "Process.waitpid": true, "Process.waitpid2": true, "Process.waitall": true,
	"IO.select": true, "Kernel#select": true, "IO#read": true, "IO#gets": true, "IO#readpartial": true, "IO#sysread": true,
	"IO#wait_readable": true, "IO#wait_writable": true, "IO#write": true, "TCPServer#accept": true, "UNIXServer#accept": true,
}
