package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// firefoxVersion is the version of the "processed profile" format that ddtop writes. It is the last version in which
// each thread has its own tables and strings. The Firefox Profiler converts older versions when it opens them.
const firefoxVersion = 55

// firefoxOrigins is the index of the first origin of frames in a Firefox profile's list of categories. The list has
// gvl's states in their order, followed by the origins.
const firefoxOrigins = int(gvl.NumStates)

// firefoxColors are the colours of states, by their names in the Firefox Profiler. The profiler treats the category
// "transparent" as idle. It requires a grey category, which it uses for samples without a category.
var firefoxColors = [gvl.NumStates]string{
	gvl.Unknown: "grey", gvl.Running: "green", gvl.Stalled: "magenta", gvl.GC: "purple", gvl.Waiting: "red", gvl.Native: "lightblue",
	gvl.IO: "blue", gvl.Lock: "orange", gvl.Parked: "transparent", gvl.Sleeping: "transparent",
}

var firefoxOriginColors = [sampler.NumOrigins]string{
	sampler.OriginUnknown: "grey", sampler.OriginApp: "yellow", sampler.OriginGem: "brown", sampler.OriginStdlib: "darkgrey",
	sampler.OriginCore: "grey", sampler.OriginEval: "lightred",
}

type firefoxProfile struct {
	Meta             firefoxMeta       `json:"meta"`
	Libs             []struct{}        `json:"libs"`
	Threads          []*firefoxThread  `json:"threads"`
	Pages            []struct{}        `json:"pages"`
	ProfilerOverhead []struct{}        `json:"profilerOverhead"`
	Counters         []*firefoxCounter `json:"counters"`
}

type firefoxMeta struct {
	Categories []firefoxCategory `json:"categories"`
	Debug      bool              `json:"debug"`
	Interval   float64           `json:"interval"` // ms
	// the version of the Gecko format on which the processed format is based
	Version     int    `json:"version"`
	Processed   int    `json:"preprocessedProfileVersion"`
	ProcessType int    `json:"processType"`
	Product     string `json:"product"`
	SampleUnits struct {
		Time       string `json:"time"`
		EventDelay string `json:"eventDelay"`
		CPUDelta   string `json:"threadCPUDelta"`
	} `json:"sampleUnits"`
	StartTime    float64         `json:"startTime"` // ms since 1970
	Symbolicated bool            `json:"symbolicated"`
	PausedRanges []struct{}      `json:"pausedRanges"`
	OneStackType bool            `json:"usesOnlyOneStackType"`
	NotMozilla   bool            `json:"sourceCodeIsNotOnSearchfox"`
	Markers      []firefoxSchema `json:"markerSchema"`
	LogicalCPUs  int             `json:"logicalCPUs,omitempty"`
	OSCPU        string          `json:"oscpu,omitempty"`
	Extra        []firefoxExtra  `json:"extra"`
}

type firefoxCategory struct {
	Name          string   `json:"name"`
	Color         string   `json:"color"`
	Subcategories []string `json:"subcategories"`
}

type firefoxExtra struct {
	Label   string              `json:"label"`
	Entries []firefoxExtraEntry `json:"entries"`
}

type firefoxExtraEntry struct {
	Label  string `json:"label"`
	Format string `json:"format"`
	Value  string `json:"value"`
}

type firefoxSchema struct {
	Name    string         `json:"name"`
	Display []string       `json:"display"`
	Chart   string         `json:"chartLabel"`
	Table   string         `json:"tableLabel"`
	Tooltip string         `json:"tooltipLabel"`
	Fields  []firefoxField `json:"fields"`
}

type firefoxField struct {
	Key        string `json:"key"`
	Label      string `json:"label"`
	Format     string `json:"format"`
	Searchable bool   `json:"searchable"`
}

type firefoxThread struct {
	Name            string     `json:"name"`
	Main            bool       `json:"isMainThread"`
	PID             string     `json:"pid"`
	TID             string     `json:"tid"`
	ProcessName     string     `json:"processName"`
	ProcessType     string     `json:"processType"`
	ProcessStartup  float64    `json:"processStartupTime"`
	ProcessShutdown *float64   `json:"processShutdownTime"`
	Register        float64    `json:"registerTime"`
	Unregister      *float64   `json:"unregisterTime"`
	PausedRanges    []struct{} `json:"pausedRanges"`
	ShowMarkers     bool       `json:"showMarkersInTimeline"`

	Samples firefoxSamples `json:"samples"`
	Stacks  firefoxTable   `json:"stackTable"`
	Frames  firefoxTable   `json:"frameTable"`
	Funcs   firefoxTable   `json:"funcTable"`
	// Resources lists where functions come from. ddtop writes gems here.
	Resources     firefoxTable `json:"resourceTable"`
	NativeSymbols firefoxTable `json:"nativeSymbols"`
	Markers       firefoxTable `json:"markers"`
	Strings       []string     `json:"stringArray"`
}

type firefoxSamples struct {
	Length int   `json:"length"`
	Stack  []int `json:"stack"`
	// Time is the end of a sample's interval, in ms. Weight is the length of the interval.
	Time       []float64 `json:"time"`
	Weight     []float64 `json:"weight"`
	WeightType string    `json:"weightType"`
	// CPUDelta is the CPU time used since the previous sample, in ns.
	CPUDelta []int64 `json:"threadCPUDelta"`
}

// firefoxTable is a table as the Firefox Profiler stores it: a list of values for each column.
type firefoxTable struct {
	names   []string
	columns [][]any
}

func newFirefoxTable(names ...string) firefoxTable {
	return firefoxTable{names, make([][]any, len(names))}
}

// add adds a row with the given values to the table, and returns the row's index.
func (t *firefoxTable) add(values ...any) int {
	for i, v := range values {
		t.columns[i] = append(t.columns[i], v)
	}
	return len(t.columns[0]) - 1
}

// MarshalJSON writes a table as the Firefox Profiler stores it: the number of rows, and a list for each column.
func (t firefoxTable) MarshalJSON() ([]byte, error) {
	out := strconv.AppendInt([]byte(`{"length":`), int64(len(t.columns[0])), 10)
	for i, name := range t.names {
		column, err := json.Marshal(append([]any{}, t.columns[i]...))
		if err != nil {
			return nil, err
		}
		out = append(append(append(append(out, `,"`...), name...), `":`...), column...)
	}
	return append(out, '}'), nil
}

type firefoxMarker struct {
	Type string `json:"type"`
	What string `json:"what"`
}

type firefoxCounter struct {
	Name            string `json:"name"`
	Category        string `json:"category"`
	Description     string `json:"description"`
	Color           string `json:"color"`
	PID             string `json:"pid"`
	MainThreadIndex int    `json:"mainThreadIndex"`
	Samples         struct {
		Length int       `json:"length"`
		Time   []float64 `json:"time"`
		// Count is the change of the counter since the previous sample.
		Count []int64 `json:"count"`
	} `json:"samples"`
}

// These are the phases of a marker. The phase says whether the marker has a length.
const (
	firefoxInstant  = 0
	firefoxInterval = 1
)

// firefoxResourceLibrary is the number that the Firefox Profiler uses for a resource of the kind "library". ddtop uses
// it for gems.
const firefoxResourceLibrary = 1

// firefoxMarkerTypes are the types of markers. The profile has a schema for each type.
var firefoxMarkerTypes = [...]string{"GVL wait", "GC", "Stalled", "IO", "Lock", "Request", "Note"}

// WriteFirefox writes a profile for https://profiler.firefox.com, in its processed format. Each thread is a track. The
// samples of a track have the same wall time as in pprof, to the ns. The track shows CPU use, states as categories, and
// markers for requests and jobs, waits for the GVL, collections, stalls, I/O and locks. The profile also has the notes,
// and the memory of each process. Times are in ms since the first sample of all traces.
func WriteFirefox(w io.Writer, list []*Trace) error {
	p := firefoxProfile{Threads: []*firefoxThread{}, Counters: []*firefoxCounter{}, Libs: []struct{}{}, Pages: []struct{}{},
		ProfilerOverhead: []struct{}{}}
	base, start := traceStart(list)
	p.Meta = firefoxMetaOf(list, start)
	for _, t := range list {
		p.addProcess(t, base)
	}
	return export.WriteCompactJSON(w, &p)
}

// traceStart returns when the first sample of all traces was taken: in ns of CLOCK_MONOTONIC, and by the wall clock.
func traceStart(list []*Trace) (ns int64, at time.Time) {
	for _, t := range list {
		if t.firstNS != 0 && (ns == 0 || t.firstNS < ns) {
			ns, at = t.firstNS, t.process.WallTime(t.firstNS)
		}
	}
	return ns, at
}

func firefoxMetaOf(list []*Trace, start time.Time) firefoxMeta {
	m := firefoxMeta{
		Processed: firefoxVersion, Version: 24, Interval: 10, Product: "ddtop", Symbolicated: true, OneStackType: true, NotMozilla: true,
		StartTime: float64(start.UnixMicro()) / 1e3, PausedRanges: []struct{}{}, Markers: []firefoxSchema{}, Extra: []firefoxExtra{},
	}
	m.SampleUnits.Time, m.SampleUnits.EventDelay, m.SampleUnits.CPUDelta = "ms", "ms", "ns"
	for s := range gvl.NumStates {
		m.Categories = append(m.Categories, firefoxCategory{s.String(), firefoxColors[s], []string{"Other"}})
	}
	for o := range sampler.NumOrigins {
		m.Categories = append(m.Categories, firefoxCategory{"code: " + o.String(), firefoxOriginColors[o], []string{"Other"}})
	}
	for _, name := range firefoxMarkerTypes {
		m.Markers = append(m.Markers, firefoxSchema{
			Name: name, Display: []string{"marker-chart", "marker-table", "timeline-overview"},
			Chart: "{marker.data.what}", Table: "{marker.data.what}", Tooltip: "{marker.name}",
			Fields: []firefoxField{{"what", "What", "string", true}},
		})
	}
	for _, t := range list {
		p := t.process
		if p.StackRate > 0 {
			m.Interval = 1e3 / p.StackRate
		}
		m.LogicalCPUs, m.OSCPU = max(m.LogicalCPUs, p.CPUs), p.Machine
		e := firefoxExtra{Label: fmt.Sprintf("%s, pid %d", export.ProgramName(p), p.PID), Entries: []firefoxExtraEntry{{"Ruby", "string", flamegraph.Printable(p.RubyDescription)}}}
		for _, c := range t.comments() {
			e.Entries = append(e.Entries, firefoxExtraEntry{"Missing", "string", c})
		}
		m.Extra = append(m.Extra, e)
	}
	if len(list) == 1 {
		m.Product = export.ProgramName(list[0].process)
	}
	return m
}

// comments returns notes about missing data.
func (t *Trace) comments() []string {
	if t.CutNS == 0 {
		return nil
	}
	return []string{fmt.Sprintf("all from %s after the start on: there was too much to keep", units.ProseDuration(t.CutNS-t.firstNS))}
}

func (p *firefoxProfile) addProcess(t *Trace, base int64) {
	threads := t.ordered()
	first := len(p.Threads)
	hasMain := false
	// the thread ids that tracks have already; Ruby reuses native threads, so an id can occur again
	tids := make(map[string]bool)
	for _, th := range threads {
		b := newFirefoxBuilder(t, th, base)
		hasMain = hasMain || b.out.Main
		if tids[b.out.TID] {
			b.out.TID += "." + strconv.FormatUint(uint64(th.id), 10)
		}
		tids[b.out.TID] = true
		p.Threads = append(p.Threads, b.out)
	}
	if len(threads) == 0 {
		return
	}
	main := p.Threads[first] // the process's first thread is its main thread
	if !hasMain {
		main.Main = true // the profiler represents a process by its main thread, so mark this thread as the main one
	}
	main.ShowMarkers = true
	notes := firefoxStrings{out: main, index: make(map[string]int)}
	for i, s := range main.Strings {
		notes.index[s] = i
	}
	for _, n := range t.Notes {
		if n.AtNS < base {
			continue
		}
		main.mark(0, notes.of("Note"), "Note", flamegraph.Printable(n.Text), firefoxMS(n.AtNS-base), nil)
	}
	if points := t.memory; len(points) > 0 {
		c := &firefoxCounter{Name: "memory", Category: "Memory", Description: "Resident memory of the process", Color: "grey", PID: main.PID, MainThreadIndex: first}
		last := int64(0)
		for _, x := range points {
			c.Samples.Time = append(c.Samples.Time, firefoxMS(x.atNS-base))
			c.Samples.Count = append(c.Samples.Count, x.value-last)
			last = x.value
		}
		c.Samples.Length = len(points)
		p.Counters = append(p.Counters, c)
	}
}

func firefoxMS(ns int64) float64 { return float64(ns) / 1e6 }

// mark adds a marker to a thread. If the marker has no length, end is nil.
func (t *firefoxThread) mark(category, name int, kind, what string, start float64, end any) {
	phase := firefoxInstant
	if end != nil {
		phase = firefoxInterval
	}
	t.Markers.add(category, firefoxMarker{kind, what}, name, start, end, phase)
}

// firefoxStrings gives a number to each string of a thread, because a Firefox profile refers to strings by number.
type firefoxStrings struct {
	out   *firefoxThread
	index map[string]int
}

func (t *firefoxStrings) of(s string) int {
	s = flamegraph.Printable(s)
	n, ok := t.index[s]
	if !ok {
		n = len(t.out.Strings)
		t.out.Strings = append(t.out.Strings, s)
		t.index[s] = n
	}
	return n
}

// tidOf returns the id of a thread's native thread. If the thread has none, it returns ddtop's own id as "#3".
func tidOf(id sampler.ThreadID, info sampler.ThreadInfo) string {
	if info.TID != 0 {
		return strconv.Itoa(int(info.TID))
	}
	return "#" + strconv.FormatUint(uint64(id), 10)
}
