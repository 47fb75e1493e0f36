package ui

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
)

// beforeOf is what the rows of the top had in the other recording, by their labels, as much time taken; nil: it is not compared.
func (p *topPage) beforeOf(sc *scene) map[string]topBefore {
	v := p.flame
	if v.baseKind != againstBase || v.filter != "" {
		p.before = nil
		return nil
	}
	if p.before == nil {
		p.before = &topPage{flame: v}
	}
	b := p.before
	b.kind = p.kind
	other := scene{dict: v.against.dict}
	b.sum(&v.against.weights, new(flamegraph.Snapshot), &other)
	factor := v.against.factor(&sc.weights)
	out := make(map[string]topBefore, len(b.rows))
	for i := range b.rows {
		r := &b.rows[i]
		t := out[r.name()]
		t.self += int64(float64(r.self[0]) * factor)
		t.total += int64(float64(r.total[0]) * factor)
		t.blame += int64(float64(r.blame) * factor)
		out[r.name()] = t
	}
	return out
}

// topBefore is what a row weighed in the other recording.
type topBefore struct{ self, total, blame int64 }

func (t topBefore) weight(by topOrder) int64 {
	switch by {
	case byTotal:
		return t.total
	case byBlame:
		return t.blame
	}
	return t.self
}

// name is what a row is called in another recording, too.
func (r *topRow) name() string {
	if r.label != "" {
		return r.label
	}
	return fmt.Sprintf("%s:%d", r.file[strings.LastIndexByte(r.file, '/')+1:], r.line)
}
