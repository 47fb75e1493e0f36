package scene

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// FindingID identifies a finding from picture to picture. It is enough because a process has at most one finding of
// each rule.
type FindingID struct {
	Of   *Member // nil for the shown process
	Rule string
}

// ID returns the FindingID of the i-th finding. It is the zero value if there is no i-th finding.
func (f *Findings) ID(i int) FindingID {
	if i >= len(f.List) {
		return FindingID{}
	}
	id := FindingID{Rule: f.List[i].ID}
	if f.Owners != nil {
		id.Of = f.Owners[i]
	}
	return id
}

// Index returns the present index of a finding in List. It is -1 if List does not have the finding.
func (f *Findings) Index(id FindingID) int {
	for i := range f.List {
		if f.ID(i) == id {
			return i
		}
	}
	return -1
}

// Findings are the findings that a picture shows.
type Findings struct {
	List []findings.Finding
	// Owners has the process of each finding in List. It is nil if all findings belong to the process that is shown.
	Owners []*Member
	// Note is a text that is shown instead of findings, while too little was measured to have any.
	Note string
	// Below is a text about descendants of the shown process that ddtop could also show. It is empty if there are none.
	Below string
	// Others names the worst active finding of other processes. It is empty if there is none.
	Others string
	// Young is true until the memory has been watched for long enough to find that it grows.
	Young bool
	// Growing describes a growth of memory that has not lasted long enough for a finding.
	Growing findings.Growing
}

// Current returns the active findings. They come first in List, before the findings that have ended.
func (v *Findings) Current() []findings.Finding {
	n := slices.IndexFunc(v.List, func(f findings.Finding) bool { return f.AgoNS != 0 })
	if n < 0 {
		return v.List
	}
	return v.List[:n]
}

// Pool reports whether one of the given threads waits for a pool, such as a connection pool, according to an active
// finding.
func (v *Findings) Pool(waiters []sampler.ThreadID) bool {
	return slices.ContainsFunc(v.Current(), func(f findings.Finding) bool {
		return f.ID == "pool_wait" && slices.ContainsFunc(f.Threads, func(id sampler.ThreadID) bool { return slices.Contains(waiters, id) })
	})
}

const (
	noFindings = "no findings: nothing stands out in the last 10 s"
	// noneNow is the first line if all findings have already ended.
	noneNow = "no findings now"
	// FiguresOf is a text beside the first finding, on screens of at least FiguresOfWidth columns. It names the time
	// span that the findings are about, because the pictures below cover longer time spans.
	FiguresOf      = "last 10 s"
	FiguresOfWidth = 100
)

// NothingFound returns the text to show if there is no finding. If memory was not watched for long enough, the text
// does not claim that memory does not grow.
func (f *Findings) NothingFound() (mark, text string) {
	switch {
	case f.Below != "":
		return "↓", f.Below
	case f.Others != "":
		return "↓", "none in this process. " + f.Others + ". 8 shows all"
	case f.Note != "":
		return "…", f.Note
	case f.Growing.SpanNS > 0:
		return "…", "no findings yet; " + f.GrowingText() + " and is watched"
	case len(f.List) > 0:
		return "✓", noneNow
	case f.Young:
		return "✓", noFindings + "; memory is watched for a minute first"
	}
	return "✓", noFindings
}

// GrowingText says how the memory grows: "memory grows by 2.6 MB per second (119 MB to 178 MB in 22 s)".
func (f *Findings) GrowingText() string {
	g := &f.Growing
	what := "memory"
	if g.OfC {
		what = "memory of C code"
	}
	return fmt.Sprintf("%s grows by %s per second (%s to %s in %s)", what, units.FineBytes(int64(float64(g.ToBytes-g.FromBytes)*1e9/float64(g.SpanNS))),
		units.Bytes(g.FromBytes), units.Bytes(g.ToBytes), units.ProseDuration(g.SpanNS))
}

// BelowText says how many descendants of a process ddtop could also show, and which key shows them.
func BelowText(p *sampler.Process, below int) string {
	one, many := "process", "processes"
	if strings.HasPrefix(p.Part, "master") {
		one, many = "worker", "workers"
	}
	them := "them"
	if below == 1 {
		them = "it"
	}
	return units.Plural(below, one, many) + " below, tab watches " + them
}

// Notes are the notes that the user wrote, each with its time, such as "deploy rolled back". They are sorted by time.
type Notes []sampler.Note

// MaxNotes limits how many notes are kept. If there are more, the oldest note is dropped.
const MaxNotes = 1000

// RecordedNotes returns the notes that a recording contains.
func RecordedNotes(src sampler.Source, names *redact.Redactor) Notes {
	r, ok := src.(interface{ Notes() []sampler.Note })
	if !ok {
		return nil
	}
	var out Notes
	for _, n := range names.Notes(r.Notes()) {
		if n.Text = canvas.Clean(n.Text); n.Text != "" {
			out = append(out, n)
		}
	}
	return out[max(len(out)-MaxNotes, 0):]
}

func (l *Notes) Add(n sampler.Note) {
	i, _ := slices.BinarySearchFunc(*l, n.AtNS+1, func(x sampler.Note, at int64) int { return int(min(max(x.AtNS-at, -1), 1)) })
	if *l = slices.Insert(*l, i, n); len(*l) > MaxNotes {
		*l = (*l)[1:]
	}
}

// Last returns the newest note that is not later than atNS. It returns nil if there is none.
func (l Notes) Last(atNS int64) *sampler.Note {
	for i := range slices.Backward(l) {
		if l[i].AtNS <= atNS {
			return &l[i]
		}
	}
	return nil
}

// In returns the notes between two times, as lines of a list.
func (l Notes) In(fromNS, toNS int64, p *sampler.Process) []string {
	var out []string
	for _, n := range l {
		if n.AtNS > fromNS && n.AtNS <= toNS {
			out = append(out, fmt.Sprintf("%s %s", p.WallTime(n.AtNS).Format("15:04:05"), n.Text))
		}
	}
	return out
}
