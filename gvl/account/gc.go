package account

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxGCStacks limits how many stacks are counted separately. There are two counts: of the stacks that start
	// collections, and of the stacks inside which the collector works.
	maxGCStacks = 4096
	// maxStatGC limits how many places in the code each list about collections of a Stat has.
	maxStatGC = 10
)

// gcAccount counts collections by reason and by the code that starts them. It also counts the time of the collector by
// the code inside which the collector works. This code need not have started the collection. Lazy sweeping and
// incremental marking continue when any code allocates objects (docs/internals/gc.md#whether-it-runs).
type gcAccount struct {
	known    bool
	count    uint64
	triggers map[sampler.StackID]gcStarts
	payers   map[sampler.StackID]int64
	// lost is the number of collections that were started by stacks beyond the limit maxGCStacks. lostNS is the
	// collector's time in such stacks.
	lost   uint64
	lostNS int64
	// byTrigger and byMajor count collections by the words that Ruby uses for their reason. missed counts collections
	// whose reason is unknown, because the next collection overwrote the reason before ddtop read it.
	byTrigger [len(gcTriggers) + 1]uint64
	byMajor   [len(gcMajors) + 1]uint64
	missed    uint64
	phaseNS   [4]int64
}

// gcStarts counts the collections that one stack started. seen counts the collections that were still running when a
// sample first showed them. probable counts the collections that had already ended at that time. A probable collection
// began in this stack or shortly before it.
type gcStarts struct{ seen, probable uint64 }

var (
	gcTriggers = [...]string{"newobj", "malloc", "method", "capi", "stress"}
	gcMajors   = [...]string{"nofree", "oldgen", "shady", "force", "oldmalloc"}
)

func newGCAccount() gcAccount {
	return gcAccount{triggers: make(map[sampler.StackID]gcStarts), payers: make(map[sampler.StackID]int64)}
}

// tick counts the collections that began since the last sample.
func (g *gcAccount) tick(k *gvl.Tick) {
	gc := &k.GC
	if gc.Valid && g.known && gc.Count > g.count {
		g.start(gc, gc.Count-g.count, k.Payer, k.PayerKnown && !k.Gap)
	}
	g.known, g.count = gc.Valid, gc.Count
}

func (g *gcAccount) pay(stack sampler.StackID, mode sampler.GCMode, ns int64) {
	if ns <= 0 {
		return
	}
	g.phaseNS[min(int(mode), len(g.phaseNS)-1)] += ns
	if _, ok := g.payers[stack]; !ok && len(g.payers) >= maxGCStacks {
		g.lostNS += ns
		return
	}
	g.payers[stack] += ns
}

// start counts n collections that began since the last sample. Only the reason of the last one is known.
func (g *gcAccount) start(gc *sampler.GC, n uint64, stack sampler.StackID, known bool) {
	g.missed += n - 1
	g.byTrigger[wordIndex(gcTriggers[:], sampler.GCTrigger(gc.Reason))]++
	g.byMajor[wordIndex(gcMajors[:], sampler.GCMajorBy(gc.Reason))]++
	t, ok := g.triggers[stack]
	if !known || !ok && len(g.triggers) >= maxGCStacks {
		g.lost += n
		return
	}
	if gc.During && n == 1 {
		t.seen++
	} else {
		t.probable += n
	}
	g.triggers[stack] = t
}

// wordIndex returns the index of w in words, or len(words) if w is not in words.
func wordIndex(words []string, w string) int {
	if i := slices.Index(words, w); i >= 0 {
		return i
	}
	return len(words)
}

func (g *gcAccount) fill(s *report.StatGC, dict *sampler.Dictionary) {
	t := &g.byTrigger
	s.By = report.StatGCBy{NewObj: t[0], Malloc: t[1], Method: t[2], CAPI: t[3], Stress: t[4], Unknown: t[5] + g.missed}
	m := &g.byMajor
	s.MajorBy = report.StatGCMajorBy{NoFree: m[0], OldGen: m[1], Shady: m[2], Force: m[3], OldMalloc: m[4]}
	s.PhaseNS = report.StatGCPhases{
		Mark: g.phaseNS[sampler.GCMarking], Sweep: g.phaseNS[sampler.GCSweeping], Compact: g.phaseNS[sampler.GCCompacting],
		Other: g.phaseNS[sampler.GCIdle],
	}
	starts := make(map[report.StatCode]gcStarts)
	for stack, n := range g.triggers {
		p := gcPlace(dict, stack)
		sum := starts[p]
		starts[p] = gcStarts{sum.seen + n.seen, sum.probable + n.probable}
	}
	for p, n := range starts {
		s.Triggers = append(s.Triggers, report.StatGCTrigger{StatCode: p, Seen: n.seen, Probable: n.probable})
	}
	sorting.By(s.Triggers, func(x, y report.StatGCTrigger) int {
		return cmp.Or(cmp.Compare(y.Seen+y.Probable, x.Seen+x.Probable), comparePlaces(x.StatCode, y.StatCode))
	})
	paid, total := make(map[report.StatCode]int64), g.lostNS
	for stack, ns := range g.payers {
		paid[gcPlace(dict, stack)] += ns
		total += ns
	}
	for p, ns := range paid {
		s.Payers = append(s.Payers, report.StatGCPayer{StatCode: p, NS: ns, Share: gvl.Ratio(ns, total)})
	}
	sorting.By(s.Payers, func(x, y report.StatGCPayer) int {
		return cmp.Or(cmp.Compare(y.NS, x.NS), comparePlaces(x.StatCode, y.StatCode))
	})
	s.Triggers = append([]report.StatGCTrigger{}, s.Triggers[:min(len(s.Triggers), maxStatGC)]...)
	s.Payers = append([]report.StatGCPayer{}, s.Payers[:min(len(s.Payers), maxStatGC)]...)
}

func comparePlaces(x, y report.StatCode) int {
	return cmp.Or(cmp.Compare(x.Label, y.Label), cmp.Compare(x.Path, y.Path), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Caller, y.Caller),
		cmp.Compare(x.Mark, y.Mark))
}

// builtIn reports whether a frame is Ruby's own: a C function, or a method like GC.start, which is written in Ruby.
func builtIn(f *sampler.Frame) bool { return f.C || strings.HasPrefix(f.Path, "<internal:") }

func gcPlace(dict *sampler.Dictionary, stack sampler.StackID) report.StatCode {
	if dict == nil || stack == 0 {
		return report.StatCode{}
	}
	_, id := dict.Stack(stack)
	return codeOf(dict, id, stack, builtIn)
}
