package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

// maxNativeWaitRows limits the number of rows of the table that shows where in C code threads waited.
const maxNativeWaitRows = 10

// statNativeWaits writes the C functions in which blocked threads waited.
func statNativeWaits(b *strings.Builder, s *report.Stat) {
	if len(s.NativeWaits) == 0 {
		return
	}
	fmt.Fprintln(b, "where blocked threads wait in C code, each time for a second or more:")
	for i, w := range s.NativeWaits {
		if i == maxNativeWaitRows {
			fmt.Fprintf(b, "  and %d more\n", len(s.NativeWaits)-i)
			break
		}
		text := w.Chain
		if w.Place != nil {
			text = *w.Place + " → " + text
		}
		fmt.Fprintf(b, "  %6s  %s  %s\n", units.ProseDuration(w.NS), units.Plural(w.Threads, "thread", "threads"),
			flamegraph.Printable(text))
	}
	fmt.Fprintln(b)
}

// statNativeReads writes how many native stacks were read and how many were refused. It writes nothing if there were
// none. If ddtop could not read native stacks at all, it writes the reason.
func statNativeReads(b *strings.Builder, r *report.StatNativeReads) {
	if r == nil {
		return
	}
	if x := r.Running; x != nil && x.Missing != nil {
		fmt.Fprintf(b, "no native stacks of running threads: %s\n", flamegraph.Printable(*x.Missing))
	} else if x != nil {
		fmt.Fprintf(b, "native stacks of running threads: read %d, refused %d, too short %d, lost %d\n", x.Read, x.Refused,
			x.Short, x.Lost)
	}
	switch {
	case r.Missing != nil:
		fmt.Fprintf(b, "no native stacks: %s\n", flamegraph.Printable(*r.Missing))
	case r.Read+r.Moved+r.Refused > 0:
		fmt.Fprintf(b, "native stacks: read %d, incomplete %d, moved %d, refused %d\n", r.Read, r.Cut, r.Moved, r.Refused)
	}
}
