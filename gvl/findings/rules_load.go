package findings

import (
	"cmp"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/loads"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// loadAdvice says how to have code loaded before threads need it.
const loadAdvice = "load the files before threads start: eager_load, or require them at the program's start"

// evalLoadWait matches if a thread waits until another one has loaded a file.
func evalLoadWait(w *window) hit {
	ids, _ := w.waiting(func(ts *gvl.ThreadState, _ *watch) bool {
		return loads.Waits(w.dict, ts) && ts.Detail.Holder != 0 && w.loader(ts) != 0
	})
	h := hit{score: float64(w.known(ids)) / w.limits.loadWait, severity: SeverityWarn, threads: ids}
	if len(ids) == 0 || h.score < 1 {
		return h
	}
	ts := w.state(ids[0])
	h.stack, h.object = ts.Stack, ts.Detail.Object
	h.explains = min(w.known(ids), w.sampledNS) * int64(len(ids))
	h.title = tense("Waits", "Waited") + " for loaded code"
	h.text = units.Plural(len(ids), "thread "+tenseWaits, "threads "+tenseWait) + " until a file is loaded" +
		w.longestText(", the longest for ", ids) + w.in(ts.Stack)
	if holder := w.state(w.loader(ts)); holder != nil {
		h.threads = append([]sampler.ThreadID{holder.Thread}, ids...)
		h.stack = holder.Stack
		h.text += "; " + w.name(holder.Thread) + " " + tenseIs + " loading it"
		if at := loads.Loading(w.dict, holder.Stack); at != "" {
			h.text += ", at " + at
		}
		h.text += ", and " + tenseIs + " " + holderDoes(holder) + w.in(holder.Stack)
	}
	h.next = loadAdvice + "; see why this file takes so long"
	return h
}

// loader returns the last thread of a chain in which each waits for the next one to load a file. This thread loads a
// file and waits for no other load. It is zero if the chain is a cycle, or leads to a thread that is not listed.
func (w *moment) loader(ts *gvl.ThreadState) sampler.ThreadID {
	for range w.states {
		next := w.state(ts.Detail.Holder)
		switch {
		case next == nil:
			return 0
		case next.Detail.Holder == 0 || !loads.Waits(w.dict, next):
			return next.Thread
		}
		ts = next
	}
	return 0
}

// loadCycle returns the lines at which the threads of a deadlock wait for each other's loads: "first.rb:1 ↔
// second.rb:1". It returns "" if one of the threads waits for something else.
func (w *moment) loadCycle(cycle []sampler.ThreadID) string {
	places := make([]string, 0, len(cycle)+1)
	for _, id := range cycle {
		ts := w.state(id)
		if ts == nil || !loads.Waits(w.dict, ts) {
			return ""
		}
		places = append(places, cmp.Or(code.OwnLine(w.dict, ts.Stack), loads.Loading(w.dict, ts.Stack), w.name(id)))
	}
	if len(places) == 2 {
		return strings.Join(places, " ↔ ")
	}
	return strings.Join(append(places, places[0]), " → ")
}
