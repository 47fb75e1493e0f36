package export

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// These are limits of the lists in the text of `ddtop stat`, in rows. The JSON has more entries.
const (
	maxBlamedPlaces = 5
	maxListedWaits  = 5
	maxNativeRows   = 8
)

// SmallShare is the smallest share at which the text mentions a part of a whole, such as a class or a cause of waiting.
const SmallShare = .01

// waitingText writes a line about the time in which threads waited for the GVL. The line has the shares of special
// kinds of waiting. Examples are the hand-over (a thread was chosen as the next holder, but does not have the GVL yet)
// and the wait for a CPU. The line also has what the threads did before they waited.
func waitingText(b *strings.Builder, w *report.StatWaits) {
	total := w.QueueNS + w.HandoverNS + w.YieldNS + w.CPUSlotNS
	if total == 0 {
		return
	}
	var parts []string
	for _, p := range []struct {
		ns   int64
		text string
	}{{w.HandoverNS, "of it hand-over"}, {w.YieldNS, "at the end of a time slice"}, {w.CPUSlotNS, "for a CPU slot"},
		{w.RunDelayNS, "without a CPU"}} {
		if float64(p.ns) >= SmallShare*float64(total) {
			parts = append(parts, Share(p.ns, total)+" "+p.text)
		}
	}
	if after := afterText(&w.AfterNS, total); after != "" {
		parts = append(parts, "after "+after)
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "     the waiting: %s\n", strings.Join(parts, ", "))
	}
}

// timePart is a part of a period, such as the time in one state, with its name.
type timePart struct {
	word string
	ns   int64
}

// byTime returns a timePart for each state except Unknown, together with the timeParts in more. The list is sorted by
// time, the longest first.
func byTime(n *report.StatStates, more ...timePart) (list []timePart) {
	for state, ns := range n.Array() {
		if gvl.State(state) != gvl.Unknown {
			list = append(list, timePart{gvl.State(state).String(), ns})
		}
	}
	list = append(list, more...)
	sorting.StableBy(list, func(x, y timePart) int { return cmp.Compare(y.ns, x.ns) })
	return list
}

// afterText lists what threads did before they waited, such as "io 52 %", with the share of the waiting that came
// after each state. The largest share comes first.
func afterText(n *report.StatStates, total int64) string {
	before := *n
	before.Waiting = 0
	list := byTime(&before, timePart{"something not seen", n.Unknown})
	var words []string
	for _, s := range list {
		if float64(s.ns) >= SmallShare*float64(total) {
			words = append(words, s.word+" "+Share(s.ns, total))
		}
	}
	return strings.Join(words, ", ")
}

// writeFindings writes two lines for each finding. start is when the measurement began, CLOCK_MONOTONIC in ns.
func writeFindings(b *strings.Builder, list []report.StatFinding, start int64) {
	if len(list) == 0 {
		return
	}
	for _, f := range list {
		fmt.Fprintf(b, "%s  %s%s: %s", strings.ToUpper(f.Severity), f.When(), flamegraph.Printable(f.Title), flamegraph.Printable(f.Text))
		if f.UntilNS != nil {
			fmt.Fprintf(b, " (%s to %s after the start)", units.ProseDuration(max(f.SinceNS-start, 0)), units.ProseDuration(max(*f.UntilNS-start, 0)))
		}
		if f.Evidence.Native != nil {
			fmt.Fprintf(b, "\n      in C: %s", flamegraph.Printable(*f.Evidence.Native))
		}
		fmt.Fprintf(b, "\n      → %s\n", flamegraph.Printable(f.Next))
	}
	fmt.Fprintln(b)
}

// statNotes writes a line for each note that the user wrote. start is when the measurement began, CLOCK_MONOTONIC in
// ns.
func statNotes(b *strings.Builder, notes []sampler.Note, start int64) {
	for _, n := range notes {
		fmt.Fprintf(b, "NOTE  %s after the start: %s\n", units.ProseDuration(max(n.AtNS-start, 0)), flamegraph.Printable(n.Text))
	}
	if len(notes) > 0 {
		fmt.Fprintln(b)
	}
}

// threadNames returns the displayed names for the threads of a Stat.
func threadNames(s *report.Stat) func(sampler.ThreadID) string {
	at := make(map[sampler.ThreadID]int, len(s.Threads))
	for i := range s.Threads {
		at[s.Threads[i].ID] = i
	}
	return func(id sampler.ThreadID) string {
		if i, ok := at[id]; ok {
			return statName(&s.Threads[i])
		}
		if id == 0 {
			return gvl.ThreadName(0, nil)
		}
		return fmt.Sprintf("#%d", id)
	}
}

// statBlame writes which places in the code held the GVL while other threads waited for it.
func statBlame(b *strings.Builder, s report.Stat) {
	if s.Blame.TotalNS == 0 || len(s.Blame.Frames) == 0 {
		return
	}
	if s.Quality.Lacks.Waits != nil || s.Quality.Lacks.Stacks != nil {
		fmt.Fprint(b, "places that cause the waiting for the GVL  –\n\n")
		return
	}
	name := threadNames(&s)
	places := s.Blame.Frames[:min(len(s.Blame.Frames), maxBlamedPlaces)]
	var sum float64
	for _, p := range places {
		sum += p.Share
	}
	what := fmt.Sprintf("these %d places cause", len(places))
	if len(places) == 1 {
		what = "one place causes"
	}
	fmt.Fprintf(b, "%s %s of the waiting for the GVL (all of it: %s", what, units.Percent(sum), units.ProseDuration(s.Blame.TotalNS))
	for _, part := range BlameParts(&s.Blame) {
		fmt.Fprintf(b, ", %s", part)
	}
	fmt.Fprintln(b, ")")
	for _, p := range places {
		fmt.Fprintf(b, "  %5s  %s  %s\n", units.Percent(p.Share), PlaceText(p), name(p.Thread))
	}
	fmt.Fprintln(b)
}

// BlameParts describes what the holders of the GVL did while other threads waited for it. Each part has its share of
// the waiting time.
func BlameParts(x *report.StatBlame) (parts []string) {
	for _, k := range []struct {
		ns   int64
		text string
	}{{x.RunningNS, "while the holder ran"}, {x.StalledNS, "while it slept in the kernel"},
		{x.GCNS, "while it collected garbage"}, {x.NobodyNS, "while nobody held it"}} {
		if float64(k.ns) >= SmallShare*float64(x.TotalNS) {
			parts = append(parts, Share(k.ns, x.TotalNS)+" "+k.text)
		}
	}
	return parts
}

// PlaceText returns the text for a place in the code that held the GVL while threads waited.
func PlaceText(p report.StatPlace) string {
	text := p.Text()
	switch {
	case text == "":
		return "(no Ruby frames)"
	case p.Caller != "":
		text = p.Caller + " → " + text
	}
	if p.Path != "" {
		text = withPlace(text, p.Path, int(p.Line), p.Uncertain)
	}
	return flamegraph.Printable(text)
}

// withPlace adds a place in the code to a text, such as "app/cart.rb:12".
func withPlace(text, path string, line int, uncertain bool) string {
	text, place := gvl.AddLine(text, fmt.Sprintf("%s:%d", path, line))
	if place != "" {
		return text + " (" + place + doubt(uncertain) + ")"
	}
	return text + doubt(uncertain)
}

// doubt returns "?" if the number of a line is uncertain. The screen uses the same mark. Otherwise doubt returns "".
func doubt(uncertain bool) string {
	if uncertain {
		return "?"
	}
	return ""
}

// statLongest writes the longest waits for the GVL, and what each thread did before its wait.
func statLongest(b *strings.Builder, s report.Stat) {
	if len(s.LongestWaits) == 0 {
		return
	}
	name := threadNames(&s)
	fmt.Fprintln(b, "the longest waits for the GVL")
	for _, w := range s.LongestWaits[:min(len(s.LongestWaits), maxListedWaits)] {
		fmt.Fprintf(b, "  %9s  %s", w.Told().Prose(), name(w.Thread))
		if w.Method != "" {
			fmt.Fprintf(b, " in %s", flamegraph.Printable(w.Method))
		}
		if w.Before != nil {
			fmt.Fprintf(b, ", after %s of %s", units.ProseDuration(w.Before.NS), flamegraph.Printable(beforeText(w.Before)))
		}
		if w.Exact {
			exactWait(b, &w, name)
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintln(b)
}

// beforeText names the state in which a thread was before a wait. The text w.Words ends with the time in that state.
// beforeText removes this time, because the caller writes it itself.
func beforeText(w *report.StatBefore) string {
	return strings.TrimSuffix(w.Words, " "+units.ProseDuration(w.NS))
}

// maxAloneRows limits how many C stacks the text shows for a thread that Ruby does not know.
const maxAloneRows = 3

// statNative writes the threads that Ruby does not know, and where in C code they ran.
func statNative(b *strings.Builder, s report.Stat) {
	if len(s.NativeThreads) == 0 {
		return
	}
	fmt.Fprint(b, "native threads that Ruby doesn't know: ")
	for i, n := range s.NativeThreads {
		if i == maxNativeRows {
			fmt.Fprintf(b, ", and %d more", len(s.NativeThreads)-i)
			break
		}
		if i > 0 {
			fmt.Fprint(b, ", ")
		}
		fmt.Fprintf(b, "%s (tid %d) %s of a CPU", flamegraph.Printable(n.Name), n.TID, Share(n.CPUNS, s.DurationNS))
	}
	fmt.Fprint(b, "\n")
	for _, n := range s.NativeThreads[:min(len(s.NativeThreads), maxNativeRows)] {
		for _, r := range n.Ran[:min(len(n.Ran), maxAloneRows)] {
			fmt.Fprintf(b, "  %5s of %s (tid %d) in %s\n", Share(int64(r.Taken), int64(n.Taken)), flamegraph.Printable(n.Name), n.TID,
				flamegraph.Printable(r.Chain))
		}
	}
	fmt.Fprint(b, "\n")
}
