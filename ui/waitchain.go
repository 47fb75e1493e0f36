package ui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

const (
	// maxChainNS bounds the stretch of the history that is read again for one wait: of a longer one its end is told.
	maxChainNS = int64(10e9)
	// namedInSentence is how many holders a wait's sentence names.
	namedInSentence = 2
)

// waitChain says who held the GVL during a wait.
type waitChain struct {
	of  waitKey
	sum gvl.ChainSum
	// lenNS is the length of the wait that it is about, cut: of its end alone.
	lenNS int64
	cut   bool
	err   error
}

// chainMsg brings what was read from the history.
type chainMsg waitChain

// chain reads the history around a wait once more.
func (s *Store) chain(e *waitEvent) waitChain {
	c := waitChain{of: e.key(), lenNS: e.lenNS}
	if c.cut = e.lenNS > maxChainNS; c.cut {
		c.lenNS = maxChainNS
	}
	w := gvl.Wait{Thread: e.thread, FromNS: e.endNS - c.lenNS, ToNS: e.endNS, Exact: e.exact, HandoverNS: e.handNS, NoCPUNS: e.noCPUNS}
	w.Before.Ractor = e.ractor
	stream := gvl.NewStream(s.process)
	chain := gvl.NewChain(stream, &w, s.dict)
	c.err = s.readAgain(w.FromNS, s.toldAt(w.ToNS), stream)
	c.sum = chain.Sum()
	return c
}

// fetch returns the command that reads who held the GVL during the selected wait.
func (p *waitsPage) fetch(m *Model) tea.Cmd {
	i := p.table.index()
	if i < 0 || p.table.rows[i].id() == p.asked {
		return nil
	}
	e, store := p.table.rows[i].waitEvent, m.store
	p.asked = e.key()
	return func() tea.Msg { return chainMsg(store.chain(&e)) }
}

// take keeps what was read if it is still what is wanted.
func (p *waitsPage) take(m *Model, msg tea.Msg) {
	if msg, ok := msg.(chainMsg); ok && msg.of == p.asked {
		p.chain = waitChain(msg)
		if p.chain.of.open { // it goes on, and is asked for again at the next picture
			p.asked = waitKey{}
		}
		m.draw()
	}
}

// chainPart is a row of a chain.
type chainPart struct {
	ns    int64
	what  string    // "behind Report#build (worker-1)"
	state gvl.State // of the holder; Unknown: there was none
}

// parts are where the time of a wait went, the longest first within holders, then what was behind nobody.
func (c *waitChain) parts(sc *scene) []chainPart {
	var out []chainPart
	for i := range c.sum.Parts {
		x := &c.sum.Parts[i]
		name := canvas.Clean(gvl.ThreadName(x.Thread, sc.dict))
		what := "behind " + name
		if x.Method != "" {
			what = fmt.Sprintf("behind %s (%s)", canvas.Clean(x.Method), name)
		}
		switch x.State {
		case gvl.GC:
			what += ", which collected garbage"
		case gvl.Stalled:
			what += ", which slept with the GVL"
		}
		out = append(out, chainPart{x.NS, what, x.State})
	}
	for _, x := range []struct {
		ns   int64
		what string
	}{
		{c.sum.UnlistedNS, "behind threads that lived too short a time to be listed"}, {c.sum.OtherNS, "behind more threads"},
		{c.sum.NoCPUNS, "without a CPU"}, {c.sum.HandoverNS, "hand-over: chosen, and not running yet"},
		{c.sum.NobodyNS, "while nobody held the GVL"}, {c.sum.UnknownNS, "not known"},
	} {
		if x.ns > 0 {
			out = append(out, chainPart{x.ns, x.what, gvl.Unknown})
		}
	}
	return out
}

// sentence tells a wait: "http-3 waited 41 ms: 30 ms behind Report#build (worker-1), 11 ms without a CPU".
func (c *waitChain) sentence(w *waitRow, sc *scene) string {
	waited := "waited " + w.told().Prose()
	if w.open {
		waited = "has waited " + w.told().Prose() + " so far"
	}
	if c.cut {
		waited += fmt.Sprintf(", of the last %s of it", units.ProseDuration(c.lenNS))
	}
	all := c.parts(sc)
	var said []string
	holders, more, moreNS := 0, 0, int64(0)
	for _, x := range all {
		word, _, _ := strings.Cut(x.what, ":")
		if x.state != gvl.Unknown {
			if holders++; holders > namedInSentence {
				more++
				moreNS += x.ns
				continue
			}
		} else if more > 0 {
			said = append(said, fmt.Sprintf("%s behind %s", units.ProseDuration(moreNS), units.Plural(more, "more", "more")))
			more = 0
		}
		if x.ns*200 >= c.lenNS || len(said) == 0 { // what is less than half a percent stands in the rows
			said = append(said, units.ProseDuration(x.ns)+" "+word)
		}
	}
	if more > 0 {
		said = append(said, fmt.Sprintf("%s behind %d more", units.ProseDuration(moreNS), more))
	}
	if len(said) == 0 {
		return w.name + " " + waited
	}
	return w.name + " " + waited + ": " + strings.Join(said, ", ")
}
