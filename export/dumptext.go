package export

import (
	"fmt"
	"io"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// WriteText writes the dump for people, like a JVM thread dump. First come the holder of the GVL and its queue,
// deadlocks and locks. Then comes each thread with its stack, innermost frame first. Control characters in names are
// replaced, so that the text cannot control a terminal.
func (d *Dump) WriteText(w io.Writer) error {
	t := dumpText{d: d, threads: make(map[sampler.ThreadID]int, len(d.Threads))}
	for i := range d.Threads {
		t.threads[d.Threads[i].ID] = i
	}
	t.head()
	for i := range d.Threads {
		if d.leftOut == nil || !d.leftOut[i] {
			t.thread(&d.Threads[i], i)
		}
	}
	t.tail()
	_, err := io.WriteString(w, t.b.String())
	return err
}

type dumpText struct {
	d       *Dump
	threads map[sampler.ThreadID]int
	b       strings.Builder
}

func (t *dumpText) printf(format string, args ...any) { fmt.Fprintf(&t.b, format, args...) }

func (t *dumpText) head() {
	d := t.d
	t.printf("%s  %s, pid %d, %s\n", d.Time, d.program, d.PID, units.Plural(len(d.Threads), "thread", "threads"))
	ruby := d.Ruby.Description
	if ruby == "" {
		ruby = "ruby " + d.Ruby.Version
	}
	t.printf("%s\n\n", flamegraph.Printable(ruby))
	if d.Stopped {
		t.printf("%s\n\n", stoppedText)
	}
	if d.Frozen {
		t.printf("%s\n\n", frozenText)
	}
	if d.MeasuredNS > 0 {
		writeFindings(&t.b, d.Findings, d.MonotonicNS-d.MeasuredNS)
	}
	for _, r := range d.Ractors {
		t.ractor(r)
	}
	for _, c := range d.Deadlocks {
		t.deadlock(c)
	}
	t.locks()
	t.writeNativeLocks()
	t.fibers()
	t.gc()
	statAlloc(&t.b, &d.Alloc)
	t.printf("\n")
}

func (t *dumpText) ractor(r report.DumpRactor) {
	name := "GVL"
	if len(t.d.Ractors) > 1 {
		name = fmt.Sprintf("GVL of ractor %d", r.ID)
	}
	switch {
	case r.GVL.Owner != nil:
		t.printf("%s: held by %s", name, t.name(*r.GVL.Owner))
		if i, ok := t.threads[*r.GVL.Owner]; ok {
			t.printf(", %s", t.d.texts[i])
			if f := t.d.Threads[i].Frames; len(f) > 0 {
				t.printf(" in %s", frameText(&f[0]))
			}
		}
	case r.GVL.Handover != nil:
		t.printf("%s: handed over to %s, which does not run yet", name, t.name(*r.GVL.Handover))
	default:
		t.printf("%s: free", name)
	}
	t.printf("\n")
	if r.GVL.WaitingCount == 0 {
		return
	}
	t.printf("  waiting: %d", r.GVL.WaitingCount)
	for i, id := range r.GVL.Waiting {
		sep := ", then "
		if i == 0 {
			sep = ": "
		} else if r.GVL.Torn {
			sep = ", "
		}
		t.printf("%s%s", sep, t.name(id))
	}
	if r.GVL.Torn {
		t.printf(" (order not known: the queue changed while it was read)")
	}
	t.printf("\n")
}

// stateText describes a thread's state and how long the state has lasted. The first sample after ddtop has attached
// cannot show how long a state has lasted. For this sample, gvl.Describe writes "0 µs", and stateText removes it.
func stateText(v gvl.ThreadState, dict *sampler.Dictionary) string {
	text, lasted := gvl.Describe(v, dict), v.Lasted().Prose()
	switch {
	case v.DurationNS() <= 0:
		text = strings.Replace(text, " "+lasted, "", 1)
	case !strings.Contains(text, lasted):
		text += " (" + lasted + ")"
	}
	return flamegraph.Printable(text)
}

func (t *dumpText) name(id sampler.ThreadID) string {
	if i, ok := t.threads[id]; ok {
		th := &t.d.Threads[i]
		switch {
		case t.d.fullNames[id] != "":
			return fmt.Sprintf("%q #%d", flamegraph.Printable(t.d.fullNames[id]), id)
		case th.Main:
			return fmt.Sprintf("main #%d", id)
		}
	}
	return fmt.Sprintf("#%d", id)
}

func (t *dumpText) thread(th *report.DumpThread, i int) {
	t.printf("%s", t.name(th.ID))
	if th.Main && th.Name != nil {
		t.printf(" main")
	}
	if th.TID != nil {
		t.printf(" tid=%d", *th.TID)
	}
	if len(t.d.Ractors) > 1 {
		t.printf(" ractor=%d", th.Ractor)
	}
	if th.CPUNS != nil {
		t.printf(" cpu=%.2fs", float64(*th.CPUNS)/1e9)
	}
	t.printf(" %s\n", th.Status)
	t.printf("  %s\n", t.d.texts[i])
	t.serving(th.Serving)
	for _, note := range ThreadNotes(th) {
		t.printf("  (%s)\n", note)
	}
	t.nativeNote(th.Native)
	t.native(th.Native)
	t.frames(th.Frames)
	for _, f := range th.Fibers {
		t.printf("  resumed by a fiber:\n")
		t.frames(f.Frames)
	}
	t.suspended(th.Suspended)
	t.printf("\n")
}

// serving writes the request or job that a thread works for.
func (t *dumpText) serving(q *report.StatServing) {
	if q == nil {
		return
	}
	if q.Number != 0 {
		t.printf("  serves %s for %s", ServingName(q), AgeText(q))
		if q.QueuedNS != nil {
			t.printf(", queued for %s before", units.ProseDuration(*q.QueuedNS))
		}
		t.printf("\n")
	}
	for _, text := range Tellings(q) {
		t.printf("  %s\n", text)
	}
}

// ThreadNotes returns notes about what a thread's stack lacks, and why.
func ThreadNotes(th *report.DumpThread) []string {
	var n []string
	if th.Failed {
		n = append(n, "the stack could not be read")
	}
	if th.Stale {
		n = append(n, "the stack is of an earlier sample")
	}
	if th.Partial {
		n = append(n, "the stack changed while it was read: its inner end is missing")
	}
	if th.Truncated {
		n = append(n, fmt.Sprintf("%d frames in the middle are left out", th.Omitted))
	}
	if len(th.Frames) == 0 && !th.Failed {
		n = append(n, "no Ruby frames")
	}
	return n
}

func (t *dumpText) frames(fs []report.DumpFrame) {
	if !t.d.ownOnly {
		t.allFrames(fs)
		return
	}
	for _, r := range flamegraph.FoldStack(len(fs), func(i int) (bool, string) { return fs[i].Own, fs[i].Library }) {
		if r.Text != "" {
			t.printf("    %s\n", flamegraph.Printable(r.Text))
			continue
		}
		t.allFrames(fs[r.From:r.To])
	}
}

// frameText returns a frame's name in a form that fits into a sentence.
func frameText(f *report.DumpFrame) string {
	if f.Uncertain {
		return flamegraph.Printable(f.Label) + sampler.UncertainMark
	}
	return flamegraph.Printable(f.Label)
}

func (t *dumpText) allFrames(fs []report.DumpFrame) {
	for _, f := range fs {
		label, place := f.Label, ""
		if f.Path != nil && f.Line != 0 {
			label, place = gvl.AddLine(f.Label, fmt.Sprintf("%s:%d", *f.Path, f.Line))
		}
		t.printf("    at %s", flamegraph.Printable(label))
		switch {
		case place != "":
			t.printf(" (%s)", flamegraph.Printable(place))
		case f.Path != nil && label == f.Label:
			t.printf(" (%s)", flamegraph.Printable(*f.Path))
		}
		if f.C {
			t.printf(" [C]")
		}
		if f.Uncertain {
			t.printf(" [uncertain]")
		}
		t.printf("\n")
	}
}

func (t *dumpText) tail() {
	if list := t.d.NativeThreads; len(list) > 0 {
		t.printf("native threads that Ruby doesn't know:\n")
		for _, n := range list {
			if n.Name == "" && n.CPUNS == 0 { // a core file has neither name nor CPU time
				t.printf("  tid=%d\n", n.TID)
			} else {
				t.printf("  %s tid=%d cpu=%.2fs\n", flamegraph.Printable(n.Name), n.TID, float64(n.CPUNS)/1e9)
			}
			t.nativeNote(n.Native)
			t.native(n.Native)
		}
		t.printf("\n")
	}
	if missing := t.d.NativeMissing; missing != nil {
		t.printf("no native stacks: %s\n", flamegraph.Printable(*missing))
	}
	r := t.d.Reads
	if t.d.PauseNS > 0 {
		t.printf("stopped for %.0f µs; ", float64(t.d.PauseNS)/1e3)
		if r.PausesCut > 0 {
			t.printf("%d of %d stops cut short; ", r.PausesCut, r.Pauses)
		}
	}
	t.printf("read in %.0f µs; reads torn %d, retried %d, partial %d, failed %d\n",
		float64(t.d.ReadNS)/1e3, r.Torn, r.Retried, r.Partial, r.Failed)
}
