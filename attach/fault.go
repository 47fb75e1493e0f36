package attach

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Recovered turns a panic into an ErrFault that names the process, so that ddtop continues with other processes.
// Defer it in a function with a named error result, on the goroutine that can panic: defer attach.Recovered(pid,
// &err).
func Recovered(pid int, err *error) {
	if r := recover(); r != nil {
		*err = &TargetError{PID: pid, Kind: ErrFault, Cause: fmt.Sprintf("%v, %s", r, panickedAt()),
			Help: "Other processes can still be read. Please report this."}
	}
}

// panickedAt returns the place of the panic that is being recovered: the innermost function outside of the runtime.
func panickedAt() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers[:])])
	for panicked := false; ; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inRuntime {
			return fmt.Sprintf("in %s (%s:%d)", f.Function[strings.LastIndexByte(f.Function, '/')+1:], filepath.Base(f.File), f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return "in an unknown function"
		}
	}
}
