package scene

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// FindingID tells a finding from the others, from picture to picture: a process has one of each rule.
type FindingID struct {
	Of   *Member // nil: the one that is shown
	Rule string
}

// ID is what tells the finding at an index from the others; the zero value where there is none.
func (f *Findings) ID(i int) FindingID {
	if i >= len(f.List) {
		return FindingID{}
	}
	id := FindingID{Rule: f.List[i].ID}
	if f.Of != nil {
		id.Of = f.Of[i]
	}
	return id
}

// Index is where a finding is now; -1: it is gone.
func (f *Findings) Index(id FindingID) int {
	for i := range f.List {
		if f.ID(i) == id {
			return i
		}
	}
	return -1
}

// Findings says in plain words what is wrong, the cause first, and what to do where there is room.
type Findings struct {
	List []gvl.Finding
	// Of are the processes that they are about, one for each; nil: all are about the one that is shown.
	Of []*Member
	// Note replaces the findings while there is nothing to judge yet.
	Note string
	// young: memory was not watched for long enough to tell of its growth.
	Young bool
}

// Current are the findings that go on; those that have ended come after them in the list.
func (v *Findings) Current() []gvl.Finding {
	n := slices.IndexFunc(v.List, func(f gvl.Finding) bool { return f.AgoNS != 0 })
	if n < 0 {
		return v.List
	}
	return v.List[:n]
}

// Pool reports whether there is a finding that one of some threads waits for a pool.
func (v *Findings) Pool(waiters []sampler.ThreadID) bool {
	return slices.ContainsFunc(v.Current(), func(f gvl.Finding) bool {
		return f.ID == "pool_wait" && slices.ContainsFunc(f.Threads, func(id sampler.ThreadID) bool { return slices.Contains(waiters, id) })
	})
}

const (
	noFindings = "no findings: nothing stands out in the last 10 s"
	// noneNow leads where there are findings of the past.
	noneNow = "no findings now"
	// FiguresOf stands beside the first finding, from figuresOfWidth columns on: the pictures below it are of longer stretches of time.
	FiguresOf      = "last 10 s"
	FiguresOfWidth = 100
)

// NothingFound says that there is no finding, and of what that is said while it can't be of all: memory is watched for some time before its
// growth is told.
func (f *Findings) NothingFound() (mark, text string) {
	switch {
	case f.Note != "":
		return "…", f.Note
	case len(f.List) > 0:
		return "✓", noneNow
	case f.Young:
		return "✓", noFindings + "; memory is watched for a minute first"
	}
	return "✓", noFindings
}
