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

// FindingID identifies a finding from one picture to the next. The rule and the process are enough for this, because
// each rule has at most one finding for a process.
type FindingID struct {
	Of   *Member // nil for the shown process
	Rule string
}

// ID returns the FindingID of the i-th finding. It returns the zero value if the list is shorter.
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

// Index returns where a finding is in List now. It returns -1 if List does not have it.
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
	// Owners has the process to which each finding in List belongs. It is nil if all findings belong to the process
	// that is shown.
	Owners []*Member
	// Note is a text that the screen shows instead of findings, while ddtop has not measured enough to find anything.
	Note string
	// Below is a text about descendants of the shown process that ddtop could show, too. It is empty if there are none.
	Below string
	// Others is a text about the worst active finding of other processes. It is empty if they have none.
	Others string
	// Young is true until ddtop has watched the memory for long enough to notice that it grows.
	Young bool
	// Growing describes how the memory grows, while the growth has not lasted long enough for a finding.
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

// Pool reports whether one of the given threads waits for a pool, such as a connection pool. It finds this in the
// active findings.
func (v *Findings) Pool(waiters []sampler.ThreadID) bool {
	return slices.ContainsFunc(v.Current(), func(f findings.Finding) bool {
		return f.ID == "pool_wait" && slices.ContainsFunc(f.Threads, func(id sampler.ThreadID) bool { return slices.Contains(waiters, id) })
	})
}

const (
	noFindings = "no findings: nothing stands out in the last 10 s"
	// noneNow is the text of the first line if there are findings, but all of them have ended.
	noneNow = "no findings now"
	// FiguresOf is a text beside the first finding, on screens of at least FiguresOfWidth columns. It says which time
	// the findings are about. Without it, the reader could think that the findings are about the longer time in the
	// pictures below.
	FiguresOf      = "last 10 s"
	FiguresOfWidth = 100
)

// NothingFound returns the text to show if there are no findings. Until ddtop has watched the memory for long enough,
// the text must not say that memory does not grow.
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

// GrowingText returns a text that says how the memory grows: "memory grows by 2.6 MB per second (119 MB to 178 MB in 22
// s)".
func (f *Findings) GrowingText() string {
	g := &f.Growing
	what := "memory"
	if g.OfC {
		what = "memory of C code"
	}
	return fmt.Sprintf("%s grows by %s per second (%s to %s in %s)", what, units.FineBytes(int64(float64(g.ToBytes-g.FromBytes)*1e9/float64(g.SpanNS))),
		units.Bytes(g.FromBytes), units.Bytes(g.ToBytes), units.ProseDuration(g.SpanNS))
}

// BelowText returns a text that says how many descendants of a process ddtop could show, too, and which key shows them.
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

// MaxNotes limits how many notes of the user are kept. Once there are so many, each new note replaces the oldest.
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
