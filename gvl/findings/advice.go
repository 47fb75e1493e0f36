package findings

import (
	"slices"

	"github.com/ddtop/ddtop/gvl/findings/internal/tenses"
	"github.com/ddtop/ddtop/gvl/findings/internal/tips"
)

// advice is one suggestion of what to do about a finding.
type advice = tips.Advice

// leading has the rules about a shortage on the whole machine. Their advice is chosen first. The advice of all other
// findings must then not contradict it.
var leading = []string{ruleStarved, "memory_stall"}

// Told has the findings of one process. Processes with the same Program run the same code with the same number of
// threads.
type Told struct {
	Program string
	List    []Finding
}

// plan chooses the advice for the findings of one process.
func plan(list []Finding) { PlanTogether(Told{List: list}) }

// PlanTogether sets Next of all findings. No two pieces of advice contradict each other within one process or one
// program. Advice about a shortage of the whole machine limits the advice for all programs. If a finding's first piece
// of advice contradicts other advice, the finding gets the next piece that does not. Active findings choose before
// ended ones.
func PlanTogether(all ...Told) {
	var p planned
	for _, t := range all {
		p.todo = append(p.todo, planning{t, make([]bool, len(t.List))})
	}
	p.each(func(f *Finding) bool { return f.UntilNS == 0 && f.leads() })
	p.each(func(f *Finding) bool { return f.UntilNS == 0 })
	p.each(func(*Finding) bool { return true })
}

// planned is the advice chosen so far.
type planned struct {
	todo []planning
	// The fields of, machine and any have the changes that the advice chosen so far asks for, such as more processes.
	// of has the changes by program. machine has the changes for the whole machine (leading), and any has all changes.
	of           map[string]tips.Effect
	machine, any tips.Effect
}

// planning is a process and its findings, while their advice is being chosen.
type planning struct {
	Told
	chosen []bool
}

// leads reports whether the finding is about a shortage on the whole machine.
func (f *Finding) leads() bool { return slices.Contains(leading, f.ID) }

// each chooses the advice for all findings for which the function wanted returns true, except findings that already
// have advice.
func (p *planned) each(wanted func(f *Finding) bool) {
	for _, t := range p.todo {
		for i := range t.List {
			if !t.chosen[i] && wanted(&t.List[i]) {
				t.chosen[i] = true
				p.choose(&t, i)
			}
		}
	}
}

func (p *planned) choose(t *planning, i int) {
	f, others := &t.List[i], p.of[t.Program]|p.machine
	if f.leads() {
		others = p.any
	}
	for j := range f.advice {
		a := &f.advice[j]
		if a.Does&others.Against() != 0 || !t.allows(i, a) {
			continue
		}
		f.Next = tenses.Spoken(a.Text, f.UntilNS != 0)
		if p.of == nil {
			p.of = make(map[string]tips.Effect)
		}
		p.of[t.Program] |= a.Does
		p.any |= a.Does
		if f.leads() {
			p.machine |= a.Does
		}
		return
	}
}

// allows reports whether the conditions of an advice hold for the i-th finding of the process.
func (t *planning) allows(i int, a *advice) bool {
	f, now := &t.List[i], 0 // now is the number of active findings
	for k := range t.List {
		if t.List[k].UntilNS == 0 {
			now++
		}
	}
	// If another finding explains the shortage of CPU, the first advice must be about its cause. To advise more CPU
	// first would be wrong.
	begins := func(x Finding) bool {
		return x.ID != ruleStarved || !slices.ContainsFunc(t.List, func(y Finding) bool { return y.explains(&x) })
	}
	explained := func(x Finding) bool { return x.ID == a.With && x.explains(f) && begins(x) }
	over := f.UntilNS != 0
	return (a.With == "" || slices.ContainsFunc(t.List, explained)) && !(a.Below && (i == 0 || over)) &&
		!(a.Alone && (over || now > 1))
}

// advise sets the pieces of advice to choose from, best first. The last one must never contradict other advice.
func (h *hit) advise(list ...advice) { h.advice = list }

// advices returns the list that advise has set. If advise was not called, it returns a list with h.next as the only
// piece of advice.
func (h *hit) advices() []advice {
	if len(h.advice) == 0 {
		return []advice{{Text: h.next}}
	}
	return h.advice
}
