package sampler

// MaxNativeRuns bounds Sample.Runs.
const MaxNativeRuns = 4096

// NativeRun is the stack of a thread at an instant at which it ran. The kernel's clock takes one 49 times a second on
// each CPU.
type NativeRun struct {
	// AtNS is the instant, CLOCK_MONOTONIC in ns.
	AtNS   int64
	Thread ThreadID
	// Stack is the Ruby stack with the C functions that its innermost frame had called. It is the Ruby stack alone if
	// Ruby itself ran, or if the C functions did not fit Ruby's frames.
	Stack StackID
	// Holds is true if the thread had the GVL, and Collects if the garbage collector worked.
	Holds, Collects bool
}

// RunningCounts counts the stacks of running threads since they are taken.
type RunningCounts struct {
	// Read counts the stacks whose C functions fit Ruby's frames. Refused counts the stacks that do not fit, mostly
	// because a call or a return was half done. Short counts the stacks whose copy does not reach the interpreter.
	Read, Refused, Short uint64
	// Lost counts the stacks that could not be copied, or that got no name of Ruby's in time.
	Lost uint64
	// BusyNS is how long taking them took the kernel, in ns.
	BusyNS int64
}

// CountRunning sets what Running returns.
func (w *NativeWatch) CountRunning(c RunningCounts, failed string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.runningFailed = c, failed
}

// Running returns how many stacks of running threads were taken and refused. failed says why none can be taken. It is
// empty if they can, or if no caller has asked for them.
func (w *NativeWatch) Running() (c RunningCounts, failed string) {
	if w == nil {
		return c, ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running, w.runningFailed
}
