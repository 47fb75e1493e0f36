package scene

import (
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// Notes are what a person wrote at moments ("deploy rolled back"), by time.
type Notes []sampler.Note

// MaxNotes bounds the notes that are kept; the oldest goes first.
const MaxNotes = 1000

// RecordedNotes returns the notes that a recording has.
func RecordedNotes(src sampler.Source, names *sampler.Redactor) Notes {
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

// Last is the newest note at or before a moment; nil when there is none.
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
