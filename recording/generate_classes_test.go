package recording

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// wildClasses sometimes makes a new random estimate of the allocations by class. The list gets another order, and some
// classes are removed or added. Most classes stay the same.
func (g *generator) wildClasses() {
	s, r := &g.s, g.r
	if !g.chance(0.3) {
		return
	}
	if g.chance(0.1) {
		s.Classes = nil
		return
	}
	var n sampler.AllocClasses
	if s.Classes != nil {
		n = *s.Classes
	}
	n.Classes = slices.Clone(n.Classes)
	n.Instants, n.Seen = n.Instants+uint64(r.IntN(20)), n.Seen+uint64(r.IntN(1000))
	n.Objects, n.Squares = r.Float64()*1e9, r.Float64()*1e18
	for len(n.Classes) > 0 && g.chance(0.2) {
		i := r.IntN(len(n.Classes))
		n.Classes = slices.Delete(n.Classes, i, i+1)
	}
	for len(n.Classes) < 60 && g.chance(0.7) {
		n.Classes = append(n.Classes, sampler.AllocClass{Name: fmt.Sprintf("App::Model%d\x1b", r.IntN(1e6))})
	}
	if g.chance(0.3) {
		r.Shuffle(len(n.Classes), func(i, j int) { n.Classes[i], n.Classes[j] = n.Classes[j], n.Classes[i] })
	}
	for i := range n.Classes {
		if c := &n.Classes[i]; g.chance(0.4) {
			c.Objects += r.Float64() * 1e5
			c.Squares, c.Products = c.Squares+r.Float64()*1e10, c.Products+r.Float64()*1e12
		}
	}
	s.Classes = &n
}

// programClasses makes the next estimate of the allocations by class. ddtop estimates them from moments at which it
// counts new objects, and programClasses simulates ten such moments. There are a hundred classes. A few of them have
// most of the allocations, and most were not seen at these moments.
func (g *generator) programClasses() {
	s, r := &g.s, g.r
	n := sampler.AllocClasses{}
	if s.Classes != nil {
		n = *s.Classes
		n.Classes = slices.Clone(n.Classes)
	}
	for len(n.Classes) < 100 {
		n.Classes = append(n.Classes, sampler.AllocClass{Name: fmt.Sprintf("ActiveModel::Part%d::Attribute", len(n.Classes))})
	}
	for range 10 {
		whole := float64(20_000 + r.IntN(20_000))
		n.Instants, n.Seen, n.Objects, n.Squares = n.Instants+1, n.Seen+900, n.Objects+whole, n.Squares+whole*whole
		for i := range n.Classes {
			if c := &n.Classes[i]; g.chance(1 / float64(i/4+1)) {
				part := whole * float64(1+r.IntN(100/(i+1)+3)) / 900
				c.Objects, c.Squares, c.Products = c.Objects+part, c.Squares+part*part, c.Products+part*whole
			}
		}
	}
	slices.SortFunc(n.Classes, func(a, b sampler.AllocClass) int { return cmp.Compare(b.Objects, a.Objects) })
	s.Classes = &n
}
