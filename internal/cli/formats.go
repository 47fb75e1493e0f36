package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// collapsedFormat is the format of collapsed stacks.
const collapsedFormat = "collapsed"

// recordingFormat is ddtop's own format, which is written while it is measured.
const recordingFormat = "ddtop"

// format is a file format for what was measured.
type format struct {
	name, about string
	binary      bool // no text for a terminal
	// timed: it shows all threads by time, and nothing of one request.
	timed bool
	// ends are the ends of file names that stand for the format, begins such a begin. json: names may end in .json, too.
	ends   []string
	begins string
	json   bool
	writer
}

// A writer makes a file of what is measured. Each format has one; those of a comparison have none.
type writer interface {
	// write measures a process, or reads a recording, and writes the file.
	write(ctx context.Context, src sampler.Source, j *job) error
	// writeGroup measures several processes and writes a file, or a file each.
	writeGroup(ctx context.Context, g sampler.Group, j *job) error
	// checkGroup refuses to write several processes.
	checkGroup(name string, j *job) error
}

// job says what a file is made of, and where it goes.
type job struct {
	length   time.Duration
	metric   flamegraph.Metric
	own      bool
	stamped  bool // samples with times (pprofFlags)
	endpoint *endpointFlag
	rules    *gvl.Rules     // of the findings; nil: as they are
	notes    []sampler.Note // of a recording
	// noted is told why the measurement of a process ended early, "" when it did not.
	noted func(note string)
	out   output
	std   Streams
}

// oneProcess is part of the writers whose files hold one process.
type oneProcess struct{}

func (oneProcess) checkGroup(name string, _ *job) error {
	return usageErrorf("%s holds one process: choose another format, or name one process", name)
}

func (oneProcess) writeGroup(context.Context, sampler.Group, *job) error {
	return errors.New("a file of this format holds one process")
}

// profileFormats are the formats that are made of weights, and those that show what happened; the first is the default.
func profileFormats() []format {
	return []format{
		{
			name: pprofFormat, about: "a profile for go tool pprof and many others", binary: true, ends: []string{".pb.gz", ".pprof"},
			writer: profileOf{needs: needs{spans: true}, make: func(w io.Writer, list []export.Measured, _ flamegraph.Metric) error {
				return export.WriteProfiles(w, list)
			},
				one: func(w io.Writer, m export.Measured, _ flamegraph.Metric) error { return export.WriteProfile(w, m) }},
		},
		{
			name: collapsedFormat, about: "collapsed stacks, for flamegraph.pl and others", ends: []string{".folded", ".collapsed"},
			writer: profileOf{one: export.WriteCollapsed, make: export.WriteCollapsedOf},
		},
		{
			name: "speedscope", about: "for https://www.speedscope.app", ends: []string{".speedscope.json"}, json: true,
			writer: profileOf{one: export.WriteSpeedscope, make: export.WriteSpeedscopeOf},
		},
		{
			name: "svg", about: "a flamegraph for any browser, with search and zoom, of one --metric", ends: []string{".svg"},
			writer: profileOf{one: export.WriteFlamegraph},
		},
		{
			name: "callgrind", about: "for KCachegrind: by function, line and call", ends: []string{".callgrind"}, begins: "callgrind.out",
			writer: profileOf{one: export.WriteCallgrind},
		},
		{
			name: "html", about: "a page of an incident for any browser: findings, timeline, flamegraph, requests, dumps", ends: []string{".html", ".htm"}, timed: true,
			writer: incidentPage{},
		},
		{
			name: "jsonl", about: "a line of JSON for each interval of a thread (docs/reference/jsonl.md)", ends: []string{".jsonl"}, timed: true,
			writer: intervalLines{},
		},
		timelineFormat("firefox", "for https://profiler.firefox.com: stacks and waits by time", export.WriteFirefox),
		timelineFormat("chrome", "for https://ui.perfetto.dev: threads, the GVL and counters by time", export.WriteChrome),
	}
}

// timelineFormat is a format that shows when what happened, and has its own metrics.
func timelineFormat(name, about string, write func(io.Writer, []export.Measured) error) format {
	several := func(w io.Writer, list []export.Measured, _ flamegraph.Metric) error { return write(w, list) }
	return format{
		name: name, about: about, timed: true, ends: []string{"." + name + ".json"}, json: true,
		writer: profileOf{needs: needs{trace: true}, make: several, one: func(w io.Writer, m export.Measured, _ flamegraph.Metric) error {
			return write(w, []export.Measured{m})
		}},
	}
}

// profileOf writes what was weighed by thread, stack and state.
type profileOf struct {
	needs
	// one writes one process, make several into one file. make is nil if a file holds one process.
	one  func(w io.Writer, m export.Measured, metric flamegraph.Metric) error
	make func(w io.Writer, list []export.Measured, metric flamegraph.Metric) error
}

// measure gathers weights, and what the format needs beside.
func (p profileOf) measure(ctx context.Context, src sampler.Source, length time.Duration, j *job) (export.Measured, string, error) {
	n := p.needs
	n.stamps = j.stamped
	m, note, err := measureProfile(ctx, src, length, n)
	if err != nil {
		return m, "", err
	}
	if m.Trace != nil {
		m.Trace.Notes = j.notes
	}
	m.Own = j.own
	j.endpoint.only(&m)
	return m, note, nil
}

func (p profileOf) write(ctx context.Context, src sampler.Source, j *job) error {
	m, note, err := p.measure(ctx, src, j.length, j)
	if err != nil {
		return err
	}
	j.noted(note)
	return j.out.write(ctx, j.std, func(w io.Writer) error { return p.one(w, m, j.metric) })
}

func (p profileOf) checkGroup(name string, j *job) error {
	if p.make == nil {
		return oneProcess{}.checkGroup(name, j)
	}
	return nil
}

func (p profileOf) writeGroup(ctx context.Context, g sampler.Group, j *job) error {
	list, err := measureGroup(ctx, g, j.length, j.std, func(ctx context.Context, src sampler.Source, left time.Duration) (export.Measured, string, error) {
		return p.measure(ctx, src, left, j)
	})
	if err != nil {
		return err
	}
	return j.out.write(ctx, j.std, func(w io.Writer) error { return p.make(w, list, j.metric) })
}

// incidentPage writes the page of an incident.
type incidentPage struct{ oneProcess }

func (incidentPage) write(ctx context.Context, src sampler.Source, j *job) error {
	n := export.NewIncident(src.Process(), src.Dictionary(), j.rules)
	note, err := sampleFor(ctx, src, j.length, n.Feed)
	if err != nil {
		return err
	}
	j.noted(note)
	n.Finish()
	n.Notes = j.notes
	m := export.Measured{Process: src.Process(), Dict: src.Dictionary(), Weights: new(flamegraph.Snapshot), Incident: n}
	return j.out.write(ctx, j.std, func(w io.Writer) error { return export.WriteIncident(w, m) })
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
	return 0, usageErrorf("there is no metric %q: the metrics are %s", name, strings.Join(metricNames(), ", "))
}

func formatNamed(name string, formats []format) (format, error) {
	var names []string
	for _, f := range formats {
		if f.name == name {
			return f, nil
		}
		names = append(names, f.name)
	}
	return format{}, usageErrorf("there is no format %q: the formats are %s", name, strings.Join(names, ", "))
}

// measureProfile gathers weights per thread, stack and state, and what else is needed.
func measureProfile(ctx context.Context, src sampler.Source, length time.Duration, n needs) (export.Measured, string, error) {
	w, err := newWeighing(src, n)
	if err != nil {
		return export.Measured{}, "", err
	}
	class := gvl.NewClassifier(src.Process(), src.Dictionary())
	note, err := sampleFor(ctx, src, length, func(s *sampler.Sample) { w.feed(s, class.Classify(s)) })
	if err != nil {
		return export.Measured{}, "", err
	}
	return w.finish(), note, nil
}
