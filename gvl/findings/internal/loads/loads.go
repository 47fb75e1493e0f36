// Package loads finds the threads that load code, and the threads that wait until another thread has loaded a file.
package loads

import (
	"path"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/sampler"
)

// maxNear limits how many of the innermost frames Waits checks. A thread that waits for a lock has up to this many
// frames for the wait: the lock's method, its block, and the method that takes the lock.
const maxNear = 4

// methods has the methods that load a file. Each file has a lock. If another thread is loading the same file, a thread
// waits for this lock in one of these methods (load_lock, load.c).
var methods = map[string]bool{"Kernel#require": true, "Kernel#require_relative": true, "Kernel#load": true}

// locks are the methods that wait for a Monitor. Zeitwerk holds a Monitor while it autoloads a file, so other threads
// wait for it in these methods.
var locks = map[string]bool{"Monitor#synchronize": true, "Monitor#enter": true, "Monitor#mon_synchronize": true}

// Waits reports whether a thread waits until another thread has loaded a file.
func Waits(dict *sampler.Dictionary, ts *gvl.ThreadState) bool {
	if ts.State != gvl.Lock || dict == nil {
		return false
	}
	locked, first := false, true
	for _, f := range code.Frames(dict, ts.Stack, maxNear) {
		label := code.Method(f.Label)
		switch {
		case methods[label]:
			return true
		case locks[label]:
			locked = true
		case first && !f.C && !strings.HasPrefix(f.Path, "<internal:"):
			// An autoload has no frame of its own, so the innermost frame is the code that triggered it. From Ruby 3.2
			// on, the lock of an autoload is a Mutex (autoload_data, variable.c).
			return ts.Detail.Kind == "Mutex"
		case locked && strings.HasPrefix(label, "Zeitwerk::"):
			return true
		case !locked:
			return false
		}
		first = false
	}
	return false
}

// Loading finds the innermost file that is being loaded in the stack, and returns the line that runs in it:
// "first.rb:1". It is empty if no file is being loaded.
func Loading(dict *sampler.Dictionary, stack sampler.StackID) string {
	if dict == nil {
		return ""
	}
	for _, f := range code.Frames(dict, stack, code.MaxFrames) {
		if f.Label == "<top (required)>" {
			return path.Base(f.Path) + ":" + strconv.Itoa(int(f.Line))
		}
	}
	return ""
}
