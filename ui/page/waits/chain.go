package waits

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/widget"
)

// namedInSentence limits how many holders of the GVL are named in the sentence about a wait.
const namedInSentence = 2

// chainMsg delivers which threads held the GVL during a wait, as read from the history.
type chainMsg store.WaitChain

// Fetch returns the command that reads from the history which threads held the GVL during the selected wait.
func (p *Page) Fetch(h scene.Host) tea.Cmd {
	i := p.Table.Index()
	if i < 0 || p.Table.Rows[i].ID() == p.asked {
		return nil
	}
	e, store := p.Table.Rows[i].WaitEvent, h.Store()
	p.asked = e.Key()
	return func() tea.Msg { return chainMsg(store.Chain(&e)) }
}

// ForPage marks chainMsg as a message for pages.
func (chainMsg) ForPage() {}

// Fetched stores the data of a chainMsg, unless the user has selected another wait since.
func (p *Page) Fetched(h scene.Host, msg tea.Msg) {
	if msg, ok := msg.(chainMsg); ok && msg.Of == p.asked {
		p.chain = store.WaitChain(msg)
		if p.chain.Of.Open { // the wait goes on, so ask again at the next picture
			p.asked = store.WaitKey{}
		}
		h.Draw()
	}
}

// chainPart is a part of the time of a wait. Each part has one reason, for example that a certain thread held the GVL.
type chainPart struct {
	NS     int64
	what   string    // "behind Report#build (worker-1)"
	method string    // the method within what, or "" if no stack is known
	state  gvl.State // state of the holder; Unknown if no thread held the GVL
}

// fit shortens the text c.what to w columns. If the text contains a method (c.method), fit cuts off the method's class
// first, and the method's name last.
func (c *chainPart) fit(w int) string {
	before, after, _ := strings.Cut(c.what, c.method)
	if room := w - canvas.Width(before) - canvas.Width(after); c.method != "" && room > 0 {
		return before + widget.PlaceFit(c.method, room) + after
	}
	return canvas.Cut(c.what, w)
}

// ChainParts divides the time of a wait into parts. First come the holders of the GVL, the one with the longest time
// first. After them comes the time in which no thread held the GVL.
func ChainParts(c *store.WaitChain, sc *scene.Scene) []chainPart {
	var out []chainPart
	for i := range c.Sum.Parts {
		x := &c.Sum.Parts[i]
		name := canvas.Clean(gvl.ThreadName(x.Thread, sc.Dict))
		what, method := "behind "+name, canvas.Clean(x.Method)
		if method != "" {
			what = fmt.Sprintf("behind %s (%s)", method, name)
		}
		switch x.State {
		case gvl.GC:
			what += ", which collected garbage"
		case gvl.Stalled:
			what += ", which slept with the GVL"
		}
		out = append(out, chainPart{x.NS, what, method, x.State})
	}
	for _, x := range []struct {
		ns   int64
		what string
	}{
		{c.Sum.UnlistedNS, "behind threads that lived only for a moment"}, {c.Sum.OtherNS, "behind more threads"},
		{c.Sum.NoCPUNS, "without a CPU"}, {c.Sum.HandoverNS, "hand-over: chosen, but not running yet"},
		{c.Sum.NobodyNS, "while no thread held the GVL"}, {c.Sum.UnknownNS, "not known"},
	} {
		if x.ns > 0 {
			out = append(out, chainPart{NS: x.ns, what: x.what, state: gvl.Unknown})
		}
	}
	return out
}

// chainSentence returns a sentence about a wait: "http-3 waited 41 ms: 30 ms behind Report#build (worker-1), 11 ms
// without a CPU".
func chainSentence(c *store.WaitChain, w *WaitRow, sc *scene.Scene) string {
	waited := "waited " + w.Length().Prose()
	if w.Open {
		waited = "has waited " + w.Length().Prose() + " so far"
	}
	if c.Cut {
		waited += fmt.Sprintf(", of the last %s of it", units.ProseDuration(c.LenNS))
	}
	all := ChainParts(c, sc)
	var said []string
	holders, more, moreNS := 0, 0, int64(0)
	for _, x := range all {
		word := x.what // not cut at a colon, because names have colons, too
		if x.state != gvl.Unknown {
			if holders++; holders > namedInSentence {
				more++
				moreNS += x.NS
				continue
			}
		} else {
			word, _, _ = strings.Cut(word, ":")
			if more > 0 {
				said = append(said, behindOthers(moreNS, more))
				more = 0
			}
		}
		if x.NS*200 >= c.LenNS || len(said) == 0 { // leaves out parts below half a percent
			said = append(said, units.ProseDuration(x.NS)+" "+word)
		}
	}
	if more > 0 {
		said = append(said, behindOthers(moreNS, more))
	}
	if len(said) == 0 {
		return w.Name + " " + waited
	}
	return w.Name + " " + waited + ": " + strings.Join(said, ", ")
}

// behindOthers returns a text for the holders of the GVL that the sentence about a wait leaves out: how many they are,
// and their time.
func behindOthers(ns int64, n int) string {
	return fmt.Sprintf("%s behind %s", units.ProseDuration(ns), units.Plural(n, "other place", "other places"))
}
