package page

import (
	"math"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

// incidentData is the input of the page's scripts. Times are in ns since the start of the page. StartMS is this start
// in ms since 1970. Threads, functions, stacks and texts are given as an index in their list. An index of −1 means
// none.
type incidentData struct {
	Title   string         `json:"title"`
	PID     int            `json:"pid"`
	Ruby    string         `json:"ruby"`
	StartMS float64        `json:"startMS"`
	NS      int64          `json:"ns"`
	States  []string       `json:"states"`
	Origins []string       `json:"origins"`
	Head    []incidentFact `json:"head"`
	Notes   []incidentNote `json:"notes"`
	Limits  []string       `json:"limits"`
	// Shared are the findings that concern all processes of the page. Only the data of the first process has them.
	Shared []export.SharedLine `json:"shared,omitempty"`
	// Left names the parts of the page that are left out because the page would be too large.
	Left    []string          `json:"left"`
	Stat    string            `json:"stat"`
	Columns incidentColumns   `json:"columns"`
	Threads []*incidentThread `json:"threads"`
	// Served are the names of routes and classes of jobs. Other fields refer to them by index. Index 0 means that a
	// thread works for no request and no job.
	Served []string `json:"served"`
	// AllFrames is true if the flamegraph at first shows all frames and all threads, even threads at rest.
	AllFrames bool `json:"allFrames"`
	// Names has an entry for each function: name, index of the file (−1 if there is none), first line, origin, gem,
	// library. The library is "" for the program's own code, and "-" for an entry that is not a function.
	Names [][]any  `json:"names"`
	Files []string `json:"files"`
	// Nodes is the tree of stacks, with two numbers for each node. The first is the distance in the list to its
	// caller's node (0 if it has none). The second is the function. Lines is the tree for the stacks of dumps. Its
	// nodes have the line as a third number.
	Nodes []int `json:"nodes"`
	Lines []int `json:"lines"`
	// Slices has the weights of each slice of time. A weight is a row of numbers: thread, stack, state + 16·flags, µs
	// of wall time. Each flag adds a number to the row. Flag 1 adds the CPU time in µs, flag 2 the blame in µs, flag 4
	// the index of the request's route. Stack −1 means that no stack was read.
	SliceNS int64             `json:"sliceNS"`
	Slices  [][]int64         `json:"slices"`
	Found   []incidentFinding `json:"findings"`
	Blame   []incidentCharge  `json:"blame"`
	Blamed  string            `json:"blamed"`
	Waits   []incidentWait    `json:"waits"`
	Routes  []incidentRoute   `json:"routes"`
	// Capacity predicts what more or fewer threads would change. It is missing if the program has no pool of threads.
	Capacity *report.StatCapacity `json:"capacity,omitempty"`
	Longest  []incidentLong       `json:"longest"`
	Running  []incidentLong       `json:"running"`
	Locks    []incidentLockRow    `json:"locks"`
	GC       incidentCollecting   `json:"gc"`
	// Heap is missing if no objects were counted.
	Heap  *incidentHeap     `json:"heap,omitempty"`
	Texts []string          `json:"texts"`
	Dumps []incidentInstant `json:"dumps"`
}

// incidentFact is a figure of the whole measurement: its name, its value, its meaning.
type incidentFact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	About string `json:"about"`
}

type incidentNote struct {
	AtNS int64  `json:"at"`
	Text string `json:"text"`
}

// incidentColumns has the curves of the whole process: waiting threads, CPUs, or bytes. The timeline has N columns,
// each NS long, and a curve has a value for each column. The values of a curve are from 0 to 255, where 255 stands for
// the curve's Max.
type incidentColumns struct {
	NS   int64         `json:"ns"`
	N    int           `json:"n"`
	Wait incidentCurve `json:"wait"`
	Held incidentCurve `json:"held"`
	GC   incidentCurve `json:"gc"`
	CPU  incidentCurve `json:"cpu"`
	RSS  incidentCurve `json:"rss"`
}

type incidentCurve struct {
	Max    float64 `json:"max"`
	Values []int   `json:"v"`
}

// curve scales n values for the page. of(i) returns the value with index i. Max is the largest value, or the parameter
// least if all values are smaller. A negative value means unknown, and becomes −1.
func curve(n int, least float64, of func(int) float64) incidentCurve {
	c := incidentCurve{Max: least, Values: make([]int, n)}
	for i := range n {
		c.Max = max(c.Max, of(i))
	}
	for i := range n {
		c.Values[i] = -1
		if v := of(i); v >= 0 && c.Max > 0 {
			c.Values[i] = int(math.Round(v / c.Max * 255))
		}
	}
	return c
}

// incidentThread is a thread with its lane, which is its row of states in the timeline. First is the column of the
// timeline in which the lane begins.
type incidentThread struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	TID   int32  `json:"tid"`
	Rests bool   `json:"rests"`
	First int    `json:"first"`
	Cells string `json:"cells"`
	// NS is the thread's time by state. CPU and Waits are texts about the thread's CPU time and waits in the whole
	// measurement.
	NS    [gvl.NumStates]int64 `json:"ns"`
	CPU   string               `json:"cpu"`
	Waits string               `json:"waits"`
}

type incidentFinding struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	Text     string `json:"text"`
	Next     string `json:"next"`
	FromNS   int64  `json:"from"`
	ToNS     int64  `json:"to"`
	GoesOn   bool   `json:"on"`
	Threads  []int  `json:"threads"`
	Names    string `json:"who"`
	Served   int    `json:"served"`
	Function int    `json:"function"`
}

// incidentCharge describes code that held the GVL while other threads waited for it, and for how long.
type incidentCharge struct {
	Text     string  `json:"text"`
	Share    float64 `json:"share"`
	Words    string  `json:"words"`
	Thread   int     `json:"thread"`
	Function int     `json:"function"`
}

type incidentWait struct {
	FromNS int64  `json:"from"`
	NS     int64  `json:"ns"`
	Words  string `json:"words"`
	Before string `json:"before"`
	Thread int    `json:"thread"`
}

// incidentRoute describes a route or class of jobs. P50, P95 and Max each have two elements: a time in ns, and the same
// time as text.
type incidentRoute struct {
	Name    string               `json:"name"`
	Served  int                  `json:"served"`
	Kind    string               `json:"kind"`
	Ended   int                  `json:"ended"`
	Running int                  `json:"running"`
	Rate    float64              `json:"rate"`
	Least   bool                 `json:"least"`
	P50     incidentSpan         `json:"p50"`
	P95     incidentSpan         `json:"p95"`
	Max     incidentSpan         `json:"max"`
	NS      [gvl.NumStates]int64 `json:"ns"`
	Where   string               `json:"where"`
	Blame   float64              `json:"blame"`
}

type incidentSpan struct {
	NS   int64  `json:"ns"`
	Text string `json:"text"`
}

// incidentLong is one of the longest requests.
type incidentLong struct {
	Name   string               `json:"name"`
	FromNS int64                `json:"from"`
	Took   incidentSpan         `json:"took"`
	Thread int                  `json:"thread"`
	NS     [gvl.NumStates]int64 `json:"ns"`
	Where  string               `json:"where"`
	Words  string               `json:"words"`
}

type incidentLockRow struct {
	Name    string `json:"name"`
	FromNS  int64  `json:"from"`
	ToNS    int64  `json:"to"`
	NS      int64  `json:"ns"`
	Words   string `json:"words"`
	Waiters []int  `json:"waiters"`
	Waited  string `json:"waited"`
	Owners  []int  `json:"owners"`
	Owned   string `json:"owned"`
	Where   string `json:"where"`
	Func    int    `json:"function"`
}

type incidentCollecting struct {
	Facts    []incidentFact  `json:"facts"`
	Triggers []incidentPlace `json:"triggers"`
	Payers   []incidentPlace `json:"payers"`
	// Cycles has three numbers for each garbage collection: when a sample first saw the collection, 1 if it is a major
	// collection, and the index of the text of its reason.
	Cycles []int64 `json:"cycles"`
}

// incidentHeap has the live objects by class. Said has sentences about how the objects were counted and which figures
// are uncertain.
type incidentHeap struct {
	Said    []string        `json:"said"`
	Classes []incidentClass `json:"classes"`
}

// incidentClass describes the objects of a class. PerSecond is zero if the class does not grow. Suspect is true for
// the growing class that the user should look at first.
type incidentClass struct {
	Name      string  `json:"name"`
	Objects   uint64  `json:"objects"`
	Old       uint64  `json:"old"`
	Bytes     uint64  `json:"bytes"`
	Size      string  `json:"size"`
	Share     float64 `json:"share"`
	PerSecond float64 `json:"rate"`
	Growth    string  `json:"growth"`
	Suspect   bool    `json:"suspect"`
}

type incidentPlace struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

// incidentInstant is a thread dump. Threads has six numbers for each thread: the thread, its state, a text about the
// state, the ns in that state, the stack, and a text with notes about the thread. A text is an index in Texts, and the
// stack is a node in Lines.
type incidentInstant struct {
	AtNS    int64             `json:"at"`
	GVL     []string          `json:"gvl"`
	Locks   []incidentWaiting `json:"locks"`
	Dead    []string          `json:"dead"`
	Threads []int64           `json:"threads"`
}

// incidentWaiting describes a lock for which threads waited when a thread dump was taken.
type incidentWaiting struct {
	Text    string `json:"text"`
	Holder  int    `json:"holder"`
	Waiters []int  `json:"waiters"`
}

// columnsOf returns the curves of the whole process, with a value for each column of the timeline.
func (n *Incident) columnsOf() incidentColumns {
	l := &n.lanes
	cols := l.columns
	out := incidentColumns{NS: max(l.columnNS, 1), N: len(cols)}
	part := func(i int, ns float32) float64 {
		if cols[i].sampledNS <= 0 {
			return -1
		}
		return float64(ns) / float64(cols[i].sampledNS)
	}
	ractors := float64(max(len(n.stat.GVL), 1))
	out.Wait = curve(len(cols), 1, func(i int) float64 { return part(i, cols[i].waitNS) })
	out.Held = curve(len(cols), 1, func(i int) float64 { return min(part(i, cols[i].heldNS)/ractors, 1) })
	out.GC = curve(len(cols), 1, func(i int) float64 { return min(part(i, cols[i].gcNS), 1) })
	out.CPU = curve(len(cols), 1, func(i int) float64 {
		if cols[i].cpuSpanNS <= 0 {
			return -1
		}
		return float64(cols[i].cpuNS) / float64(cols[i].cpuSpanNS)
	})
	rss := int64(-1)
	out.RSS = curve(len(cols), 0, func(i int) float64 {
		if cols[i].rss > 0 {
			rss = cols[i].rss
		}
		if i == 0 {
			rss = cols[0].rss
		}
		return float64(max(rss, -1))
	})
	return out
}

// facts returns the figures that the page shows about the whole measurement.
func (n *Incident) facts() []incidentFact {
	s := &n.stat
	var out []incidentFact
	add := func(name, value, about string) { out = append(out, incidentFact{name, value, about}) }
	for _, g := range s.GVL {
		name := "GVL held"
		if len(s.GVL) > 1 {
			name = "GVL of ractor " + units.Count(int64(g.Ractor))
		}
		held, waiting := units.Percent(g.HeldShare), units.Number(g.WaitingMean, 2)
		if s.Quality.Lacks.States != nil {
			held, waiting = "–", "–"
		}
		add(name, held, "of the time a thread held the lock without which no Ruby runs")
		add("waiting for it", waiting, "threads on average")
		if g.Waits.Count > 0 && g.Waits.Enough() {
			about := units.Count(g.Waits.Count) + " waits, p50 " + g.Waits.P50().Prose() + ", longest " + g.Waits.Max().Prose()
			add("wait p99", g.Waits.P99().Prose(), about)
		}
		if len(out) >= 12 {
			break // show only the first few of many ractors
		}
	}
	add("CPU", export.CPUText(&s.Process), "of one CPU")
	if s.GC.Valid {
		add("garbage collection", units.Percent(s.GC.Share), units.Count(int64(s.GC.Minor))+" minor, "+units.Count(int64(s.GC.Major))+" major")
	}
	if s.Process.RSSBytes > 0 {
		add("memory", units.FineBytes(s.Process.RSSBytes), "at the end")
	}
	add("threads", units.Count(int64(len(s.Threads)+s.ThreadsOmitted)), units.Count(int64(s.ThreadsGone))+" of them ended")
	return out
}

// limits returns sentences about what ddtop could not read, and what this page leaves out.
func (n *Incident) limits() []string {
	s := &n.stat
	var out []string
	add := func(text string) { out = append(out, text) }
	add("sampled " + units.Count(int64(s.Samples)) + " times: " + export.RateText(s.Rate.Stack) + " stacks, " + export.RateText(s.Rate.Lock) + " lock; torn " +
		units.Count(int64(s.Torn)) + ", retried " + units.Count(int64(s.Retried)) + ", partial " + units.Count(int64(s.Partial)) + ", failed " +
		units.Count(int64(s.Failed)) + ", late " + units.Count(int64(s.Late)))
	for _, text := range export.LacksText(&s.Quality.Lacks) {
		add(text)
	}
	if s.Lost > 0 {
		add(units.Count(int64(s.Lost)) + " samples were lost: nobody took them in time")
	}
	if s.NotSampled > 0 {
		add("not sampled for " + units.ProseDuration(s.NotSampled) + ": that time is blank in the timeline")
	}
	if s.NamesLeftOut > 0 {
		add(units.Count(int64(s.NamesLeftOut)) + " names are left out, since all of them take too much memory")
	}
	for _, g := range s.GVL {
		if g.Waits.Count > 0 {
			add(g.Waits.Known())
			break
		}
	}
	if s.Self.PriorityNote != "" {
		add(flamegraph.Printable(s.Self.PriorityNote))
	}
	if s.Self.Overhead != nil {
		add("ddtop took " + export.SelfText(&s.Self) + "; " + export.OverheadText(&s.Self))
	}
	if n.process.LayoutNote != "" {
		add(flamegraph.Printable(n.process.LayoutNote))
	}
	add("a column of the timeline is " + units.ProseDuration(max(n.lanes.columnNS, 1)) + " long and shows the two states with most of it; the flamegraph has slices of " +
		units.ProseDuration(n.weights.sliceNS) + ", to which a span is rounded; thread dumps are " + units.ProseDuration(max(n.dumps.eachNS, 1)) + " apart")
	if n.locks.otherNS > 0 {
		add(units.ProseDuration(n.locks.otherNS) + " of waiting for locks is of more locks than are kept apart")
	}
	if n.gc.Left > 0 {
		add(units.Count(int64(n.gc.Left)) + " collections are not listed: they were the last ones")
	}
	if r := &s.Requests; r.NotListed > 0 || r.LeftOut > 0 {
		add(units.Count(int64(r.NotListed)) + " routes or requests are not listed, " + units.Count(int64(r.LeftOut)) + " requests are among the others alone: there were too many at a time")
	}
	return out
}

// startNS returns the time at which the page's timeline begins, CLOCK_MONOTONIC in ns.
func (n *Incident) startNS() int64 { return n.lanes.startNS }

// since converts a time to ns since the start of the page. It moves times outside the page to its start or end.
func (n *Incident) since(ns int64) int64 {
	return min(max(ns-n.startNS(), 0), max(n.lanes.lastNS-n.startNS(), 0))
}
