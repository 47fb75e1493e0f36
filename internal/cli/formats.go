package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/export/page"
	"github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/export/trace"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

const collapsedFormat, htmlFormat = "collapsed", "html"

// recordingFormat is the format of recordings. Only this format and jsonl are written while ddtop measures.
const recordingFormat = "ddtop"

type format struct {
	name, about string
	binary      bool // must not be printed on a terminal
	// timed is true for formats that show all threads over time. With them, --endpoint is refused, because they cannot
	// show only the time of a request.
	timed bool
	// A file name with one of these endings (ends) or beginnings (begins) chooses this format. If json is true, such a
	// name may also end in .json.
	ends   []string
	begins string
	json   bool
	writer
}

// A writer measures a process and writes a file. Each format has a writer, except the formats of `ddtop diff`.
type writer interface {
	// write measures a process, or reads a recording, and writes the file.
	write(ctx context.Context, src sampler.Source, j *job) error
	// writeGroup measures several processes and writes one file, or one file for each process.
	writeGroup(ctx context.Context, g sampler.Group, j *job) error
	// checkGroup returns an error if a file of this format cannot hold several processes.
	checkGroup(name string, j *job) error
}

type job struct {
	length time.Duration
	metric flamegraph.Metric
	own    bool
	// allFrames is the flag --all-frames.
	allFrames bool
	stamped   bool // the profile has the time of each sample (pprofFlags)
	endpoint  *flags.Endpoint
	rules     *findings.Rules // rules of findings; nil for the defaults
	notes     []sampler.Note  // notes in a recording
	// noted is called after the measurement, with the reason why it ended early, or with "" if it did not.
	noted func(note string)
	out   run.Output
	std   run.Streams
	heaps *heaps.Readers // counts objects for record --heap; nil without it
}

// oneProcess is for writers whose files hold only one process. They embed it.
type oneProcess struct{}

func (oneProcess) checkGroup(name string, _ *job) error {
	return flags.Usagef("%s holds one process: choose another format, or name one process", name)
}

func (oneProcess) writeGroup(context.Context, sampler.Group, *job) error {
	return errors.New("a file of this format holds one process")
}

// profileFormats returns the formats of sums (profiles) and of events by time (traces). The first is the default.
func profileFormats() []format {
	return []format{
		{
			name: pprofFormat, about: "a profile for go tool pprof and many others", binary: true, ends: []string{".pb.gz", ".pprof"},
			writer: profileOf{Needs: run.Needs{Spans: true}, make: func(w io.Writer, list []profile.Measured, _ flamegraph.Metric) error {
				return profile.WriteProfiles(w, list)
			},
				one: func(w io.Writer, m profile.Measured, _ flamegraph.Metric) error { return profile.WriteProfile(w, m) }},
		},
		{
			name: collapsedFormat, about: "collapsed stacks, for flamegraph.pl and others", ends: []string{".folded", ".collapsed"},
			writer: profileOf{one: profile.WriteCollapsed, make: profile.WriteCollapsedOf},
		},
		{
			name: "speedscope", about: "for https://www.speedscope.app", ends: []string{".speedscope.json"}, json: true,
			writer: profileOf{one: profile.WriteSpeedscope, make: profile.WriteSpeedscopeOf},
		},
		{
			name: "svg", about: "a flamegraph for any browser, with search and zoom, of one --metric", ends: []string{".svg"},
			writer: profileOf{Needs: run.Needs{Rest: true}, one: profile.WriteFlamegraph, make: profile.WriteFlamegraphOf},
		},
		{
			name: "callgrind", about: "for KCachegrind: by function, line and call", ends: []string{".callgrind"}, begins: "callgrind.out",
			writer: profileOf{one: profile.WriteCallgrind, make: profile.WriteCallgrindOf},
		},
		{
			name: htmlFormat, about: "a page of an incident for any browser: findings, timeline, flamegraph, requests, dumps", ends: []string{".html", ".htm"}, timed: true,
			writer: incidentPage{},
		},
		{
			name: "jsonl", about: "a line of JSON for each interval of a thread (docs/reference/jsonl.md)", ends: []string{".jsonl"}, timed: true,
			writer: intervalLines{},
		},
		timelineFormat("firefox", "for https://profiler.firefox.com: stacks and waits by time", trace.WriteFirefox),
		timelineFormat("chrome", "for https://ui.perfetto.dev: threads, the GVL and counters by time", trace.WriteChrome),
	}
}

// timelineFormat returns a format that shows events over time. It ignores the metric, which is for profiles.
func timelineFormat(name, about string, write func(io.Writer, []*trace.Trace) error) format {
	several := func(w io.Writer, list []profile.Measured, _ flamegraph.Metric) error {
		var traces []*trace.Trace
		for _, m := range list {
			traces = append(traces, m.Trace)
		}
		return write(w, traces)
	}
	return format{
		name: name, about: about, timed: true, ends: []string{"." + name + ".json"}, json: true,
		writer: profileOf{Needs: run.Needs{Trace: true}, make: several, one: func(w io.Writer, m profile.Measured, metric flamegraph.Metric) error {
			return several(w, []profile.Measured{m}, metric)
		}},
	}
}

// profileOf writes a profile or a trace. A profile has sums by thread, stack and state. A trace has events by time.
type profileOf struct {
	run.Needs
	// The function one writes the file of one process. The function make writes one file for several processes.
	one  func(w io.Writer, m profile.Measured, metric flamegraph.Metric) error
	make func(w io.Writer, list []profile.Measured, metric flamegraph.Metric) error
}

// measure collects the data of a profile, and further data that the format needs.
func (p profileOf) measure(ctx context.Context, src sampler.Source, length time.Duration, j *job) (profile.Measured, string, error) {
	n := p.Needs
	n.Stamps = j.stamped
	m, note, err := run.MeasureProfile(ctx, src, length, n)
	if err != nil {
		return m, "", err
	}
	if m.Trace != nil {
		m.Trace.Notes = j.notes
	}
	m.Own, m.AllFrames = j.own, j.allFrames
	return m, note, onlyEndpoints(j.endpoint, &m)
}

func (p profileOf) write(ctx context.Context, src sampler.Source, j *job) error {
	m, note, err := p.measure(ctx, src, j.length, j)
	if err != nil {
		return err
	}
	j.noted(note)
	return j.out.Write(ctx, j.std, func(w io.Writer) error { return p.one(w, m, j.metric) })
}

func (profileOf) checkGroup(string, *job) error { return nil }

func (p profileOf) writeGroup(ctx context.Context, g sampler.Group, j *job) error {
	list, err := run.MeasureGroup(ctx, g, j.length, j.std, func(ctx context.Context, src sampler.Source, left time.Duration) (profile.Measured, string, error) {
		return p.measure(ctx, src, left, j)
	})
	if err != nil {
		return err
	}
	return j.out.Write(ctx, j.std, func(w io.Writer) error { return p.make(w, list, j.metric) })
}

type incidentPage struct{}

func (incidentPage) measure(
	ctx context.Context, src sampler.Source, length time.Duration, j *job,
) (*page.Incident, string, error) {
	n := page.NewIncident(src.Process(), src.Dictionary(), j.rules)
	n.AllFrames = j.allFrames
	counted := j.heaps.During(ctx, src.Process(), length, j.std.Say)
	note, err := run.SampleFor(ctx, src, length, n.Feed)
	n.Finish()
	n.Notes, n.Heap = j.notes, counted()
	return n, note, err
}

func (p incidentPage) write(ctx context.Context, src sampler.Source, j *job) error {
	n, note, err := p.measure(ctx, src, j.length, j)
	if err != nil {
		return err
	}
	j.noted(note)
	return j.out.Write(ctx, j.std, func(w io.Writer) error { return page.WriteIncident(w, n) })
}

func (incidentPage) checkGroup(string, *job) error { return nil }

func (p incidentPage) writeGroup(ctx context.Context, g sampler.Group, j *job) error {
	measure := func(ctx context.Context, src sampler.Source, left time.Duration) (*page.Incident, string, error) {
		return p.measure(ctx, src, left, j)
	}
	list, err := run.MeasureGroup(ctx, g, j.length, j.std, measure)
	if err != nil {
		return err
	}
	return j.out.Write(ctx, j.std, func(w io.Writer) error { return page.WriteIncidents(w, list) })
}

// checkEndpoint refuses --endpoint for formats and metrics that cannot be limited to a request. These are formats that
// show all threads over time, recordings, and the metric for objects. For objects, only the total is exact, not the
// number for one request.
func checkEndpoint(f *flags.Endpoint, format format, metric flamegraph.Metric) error {
	switch {
	case f.Match() == nil:
	case format.timed, format.name == recordingFormat:
		return flags.Usagef("--endpoint does not go with %s, which holds all threads", format.name)
	case metric == flamegraph.Allocations:
		return flags.Usagef("--endpoint: objects can't be told apart by request; choose another metric")
	}
	return nil
}

func formatsHelp(formats []format) string {
	var b strings.Builder
	b.WriteString("Formats:\n")
	for _, f := range formats {
		end := ""
		if len(f.ends) > 0 {
			end = f.ends[0]
		}
		fmt.Fprintf(&b, "  %-11s%-17s%s\n", f.name, end, f.about)
	}
	fmt.Fprintf(&b, "\nMetrics: %s", strings.Join(metricNames(), ", "))
	return b.String()
}

func metrics() []flamegraph.Metric {
	return []flamegraph.Metric{flamegraph.Wall, flamegraph.CPU, flamegraph.Wait, flamegraph.Blame, flamegraph.Samples, flamegraph.Allocations}
}

func metricNames() []string {
	var names []string
	for _, m := range metrics() {
		names = append(names, strings.ReplaceAll(m.String(), " ", "-"))
	}
	return names
}

func metricNamed(name string) (flamegraph.Metric, error) {
	if i := slices.Index(metricNames(), name); i >= 0 {
		return metrics()[i], nil
	}
	return 0, flags.Usagef("there is no metric %q: the metrics are %s", name, strings.Join(metricNames(), ", "))
}

func formatNamed(name string, formats []format) (format, error) {
	var names []string
	for _, f := range formats {
		if f.name == name {
			return f, nil
		}
		names = append(names, f.name)
	}
	return format{}, flags.Usagef("there is no format %q: the formats are %s", name, strings.Join(names, ", "))
}

func addFormat(cmd *cobra.Command, name *string, usual string) {
	cmd.Flags().StringVar(name, "format", usual, "the `FORMAT`, if the name of the file does not choose it")
}

// endsOfAny are endings of file names that do not suggest a format.
var endsOfAny = []string{"", ".prof", ".profile", ".pb", ".out", ".gz", ".bin", ".tmp"}

// endsOfText are endings of file names that fit every text format.
var endsOfText = []string{".txt", ".text", ".log", ".md"}

// tellsAnother reports whether a file's name has the ending of a format that ddtop does not write. It returns false for
// an ending without letters, and for an ending in endsOfAny. For a text format, it also returns false for an ending in
// endsOfText.
func tellsAnother(name string, binary bool) bool {
	end := filepath.Ext(name)
	return !slices.Contains(endsOfAny, end) && (binary || !slices.Contains(endsOfText, end)) && strings.ContainsAny(end, "abcdefghijklmnopqrstuvwxyz")
}

// formatOf returns the format of a file. It is the format that --format names (asked). Without --format it is the
// format that the file's name suggests, or else the default. formatOf refuses a name that contradicts --format, because
// programs that open files by their names would find the file broken.
func formatOf(cmd *cobra.Command, asked string, out run.Output, formats []format) (format, error) {
	f, err := formatNamed(asked, formats)
	if err != nil {
		return format{}, err
	}
	name := strings.ToLower(filepath.Base(string(out)))
	is := func(f format) bool {
		return slices.ContainsFunc(f.ends, func(end string) bool { return strings.HasSuffix(name, end) }) ||
			f.begins != "" && strings.HasPrefix(name, f.begins)
	}
	told := slices.IndexFunc(formats, is)
	chosen := cmd.Flags().Changed("format")
	switch {
	case told >= 0 && (formats[told].name == f.name || !chosen):
		return formats[told], nil
	case told >= 0:
		return format{}, flags.Usagef("%s is the name of a file in the format %s, not %s: choose another name, or leave --format out", out, formats[told].name, f.name)
	case strings.HasSuffix(name, ".json") && !f.json:
		var all []string
		for _, f := range formats {
			if f.json {
				all = append(all, f.name)
			}
		}
		how := "with --format"
		if cmd.Flags().Lookup("json") != nil {
			how += ", or take --json for stat"
		}
		return format{}, flags.Usagef("%s is no name for the format %s; in JSON are %s: say which %s", out, f.name, strings.Join(all, ", "), how)
	case strings.HasSuffix(name, ".html"):
		return format{}, flags.Usagef("%s is no name for the format %s; a flamegraph for a browser is an .svg", out, f.name)
	case !chosen && tellsAnother(name, f.binary) && !(f.json && strings.HasSuffix(name, ".json")):
		var known []string
		for _, f := range formats {
			known = append(known, f.ends...)
		}
		return format{}, flags.Usagef("the end of %s stands for no format: take one of %s, or say with --format which format it is", out, strings.Join(known, ", "))
	}
	return f, nil
}

const pprofFormat = "pprof"

// pprofFlags are the flags for the contents of a pprof profile.
type pprofFlags struct {
	timeline bool
}

func (f *pprofFlags) addPprof(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.timeline, "timeline", false, "pprof: a sample for each interval, with its end")
}

func (f *pprofFlags) check(of format) error {
	if f.timeline && of.name != pprofFormat {
		return flags.Usagef("--timeline goes with --format %s", pprofFormat)
	}
	return nil
}

type ownFlag struct{ own bool }

func (f *ownFlag) addOwn(cmd *cobra.Command, of string) {
	cmd.Flags().BoolVar(&f.own, "own", false, "fold frames of gems and Ruby into one, in "+of)
}

// allFramesFlag is --all-frames: a flamegraph shows all frames, and also threads that wait for work.
type allFramesFlag struct{ allFrames bool }

func (f *allFramesFlag) addAllFrames(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.allFrames, "all-frames", false, "svg, html: all frames, and threads at rest, not own code first")
}

func (f *allFramesFlag) checkAllFrames(format string) error {
	if f.allFrames && format != "svg" && format != htmlFormat {
		return flags.Usagef("--all-frames is of svg and html, not of %s", format)
	}
	return nil
}

// checkOwn refuses --own for a format that cannot fold library frames. formats lists the formats that can.
func (f *ownFlag) checkOwn(format string, formats ...string) error {
	if f.own && !slices.Contains(formats, format) {
		return flags.Usagef("--own is of %s, not of %s", strings.Join(formats, " and "), format)
	}
	return nil
}

// onlyEndpoints keeps only the times of the endpoints that --endpoint matches. It fails if ddtop saw none of them.
func onlyEndpoints(f *flags.Endpoint, m *profile.Measured) error {
	match := f.Match()
	if match == nil {
		return nil
	}
	var seen []string
	for _, served := range m.Served {
		seen = append(seen, served.Name)
	}
	m.OnlyEndpoints(match)
	return foundEndpoint(f, seen)
}

// seenEndpoints fails if a measurement has no request and no job that --endpoint matches.
func seenEndpoints(f *flags.Endpoint, m *measure.Measure) error {
	if f.Match() == nil {
		return nil
	}
	var seen []string
	all := m.Requests(nil)
	add := func(name *string) {
		if name != nil {
			seen = append(seen, *name)
		}
	}
	for i := range all.Endpoints {
		add(all.Endpoints[i].Endpoint)
	}
	for i := range all.Running {
		add(all.Running[i].Endpoint)
	}
	return foundEndpoint(f, seen)
}

// maxNearNames limits how many similar names an error suggests for an unknown name.
const maxNearNames = 5

// foundEndpoint fails if --endpoint matches none of the seen endpoints. Its error lists the most similar names.
func foundEndpoint(f *flags.Endpoint, seen []string) error {
	seen = slices.DeleteFunc(slices.Clone(seen), func(name string) bool { return name == "" })
	if slices.ContainsFunc(seen, f.Match()) {
		return nil
	}
	if len(seen) == 0 {
		return fmt.Errorf("--endpoint %s matches nothing: no request and no job was seen whose route or class is known; measure for longer, or leave --endpoint out", f)
	}
	slices.SortFunc(seen, func(x, y string) int {
		return cmp.Or(cmp.Compare(likeness(f.String(), y), likeness(f.String(), x)), cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
	seen = slices.Compact(seen)
	near := make([]string, 0, maxNearNames)
	for _, name := range seen[:min(len(seen), maxNearNames)] {
		near = append(near, flamegraph.Printable(name))
	}
	if len(near) == 1 {
		return fmt.Errorf("--endpoint %s matches nothing; the only route or class that was seen is %s", f, near[0])
	}
	return fmt.Errorf("--endpoint %s matches none of the %s routes and classes that were seen; nearest: %s", f, units.Count(int64(len(seen))),
		strings.Join(near, ", "))
}

// likeness counts the pairs of consecutive letters that occur in both texts.
func likeness(x, y string) int {
	pairs := func(s string) map[string]bool {
		out := make(map[string]bool)
		for s = strings.ToLower(s); len(s) > 1; s = s[1:] {
			out[s[:2]] = true
		}
		return out
	}
	a, b := pairs(x), pairs(y)
	both := 0
	for p := range a {
		if b[p] {
			both++
		}
	}
	return both
}
