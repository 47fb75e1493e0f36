package sampler

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/internal/sorting"
)

// MaxNativeRuns limits the length of Sample.Runs.
const MaxNativeRuns = 4096

// NativeRun is the stack of a thread at a moment at which the thread was on a CPU. A clock in the kernel makes ddtop's
// BPF program copy 49 such stacks a second on each CPU.
type NativeRun struct {
	// AtNS is the instant, CLOCK_MONOTONIC in ns.
	AtNS   int64
	Thread ThreadID
	// Stack is the Ruby stack, and in addition the C functions that its innermost frame had called. The C functions are
	// missing if Ruby's interpreter itself ran, or if they did not fit Ruby's frames.
	Stack StackID
	// Holds is true if the thread had the GVL. Collects is true if the garbage collector was running.
	Holds, Collects bool
}

// RunningCounts counts the stacks of running threads since ddtop began to record such stacks.
type RunningCounts struct {
	// Read counts the stacks whose C functions fit Ruby's frames. Refused counts the stacks that do not fit. Most of
	// these were copied in the middle of a call or a return. Short counts the stacks whose copy is too short to reach
	// the functions of Ruby's interpreter.
	Read, Refused, Short uint64
	// Lost counts the stacks that ddtop could not copy, and the stacks whose functions got their names too late for a
	// sample.
	Lost uint64
	// Alone counts the stacks of threads that Ruby does not know, such as threads that a C library started.
	Alone uint64
	// BusyNS is the CPU time that the kernel used to take the stacks, in ns.
	BusyNS int64
}

const (
	// ddtop keeps the stacks of running threads that Ruby does not know. maxAlone limits the number of these threads.
	// maxAloneStacks limits the number of different stacks for each of them. Further stacks are only counted.
	maxAlone, maxAloneStacks = 256, 256
)

// AloneRuns are the stacks of a running thread that Ruby does not know.
type AloneRuns struct {
	// Taken is how many stacks of the thread were taken. Stacks has each different stack once, up to a limit.
	Taken  int
	Stacks []AloneRun
}

// AloneRun is a stack of a running thread that Ruby does not know, and how often the stack was taken.
type AloneRun struct {
	NativeStack
	Taken int
}

// KeepAlone counts and stores a stack of a running thread that Ruby does not know.
func (w *NativeWatch) KeepAlone(tid int32, stack *NativeStack) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.alone[tid]
	if x == nil {
		if len(w.alone) >= maxAlone {
			return
		}
		if w.alone == nil {
			w.alone = make(map[int32]*AloneRuns)
		}
		x = new(AloneRuns)
		w.alone[tid] = x
	}
	x.Taken++
	same := func(r AloneRun) bool { return r.Missing == stack.Missing && slices.Equal(r.Frames, stack.Frames) }
	if i := slices.IndexFunc(x.Stacks, same); i >= 0 {
		x.Stacks[i].Taken++
	} else if len(x.Stacks) < maxAloneStacks {
		x.Stacks = append(x.Stacks, AloneRun{*stack, 1})
	}
}

// Alone returns the stored stacks of a thread that Ruby does not know, the most frequent first.
func (w *NativeWatch) Alone(tid int32) (out AloneRuns) {
	if w == nil {
		return out
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.alone[tid]; x != nil {
		out = AloneRuns{x.Taken, slices.Clone(x.Stacks)}
		sorting.StableBy(out.Stacks, func(a, b AloneRun) int { return cmp.Compare(b.Taken, a.Taken) })
	}
	return out
}

// CountRunning sets the values that Running returns.
func (w *NativeWatch) CountRunning(c RunningCounts, failed string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.runningFailed = c, failed
}

// Running returns how many stacks of running threads were taken and refused. failed says why ddtop cannot take any. It
// is empty if ddtop can take them, or if no caller has requested them.
func (w *NativeWatch) Running() (c RunningCounts, failed string) {
	if w == nil {
		return c, ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running, w.runningFailed
}
