package top

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// beforeOf is what the rows of the top had in the other recording, by their labels, as much time taken; nil: it is not compared.
func (p *Page) beforeOf(sc *scene.Scene) map[string]topBefore {
	v := p.Flame
	if v.BaseKind != widget.AgainstBase || v.Filter != "" {
		p.before = nil
		return nil
	}
	if p.before == nil {
		p.before = &Page{Flame: v}
	}
	b := p.before
	b.Kind = p.Kind
	other := scene.Scene{Dict: v.Against.Dict}
	b.Sum(&v.Against.Weights, new(flamegraph.Snapshot), &other)
	factor := v.Against.Factor(&sc.Weights)
	out := make(map[string]topBefore, len(b.rows))
	for i := range b.rows {
		r := &b.rows[i]
		t := out[r.Name()]
		t.Self += int64(float64(r.self[0]) * factor)
		t.total += int64(float64(r.total[0]) * factor)
		t.blame += int64(float64(r.blame) * factor)
		out[r.Name()] = t
	}
	return out
}

// topBefore is what a row weighed in the other recording.
type topBefore struct{ Self, total, blame int64 }

func (t topBefore) weight(by widget.TopOrder) int64 {
	switch by {
	case widget.ByTotal:
		return t.total
	case widget.ByBlame:
		return t.blame
	}
	return t.Self
}

// Name is what a row is called in another recording, too.
func (r *topRow) Name() string {
	if r.Label != "" {
		return r.Label
	}
	return fmt.Sprintf("%s:%d", r.File[strings.LastIndexByte(r.File, '/')+1:], r.Line)
}
