package cli

import (
	"context"
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

// format is a file format for what was measured.
type format struct {
	name, about string
	binary      bool // no text for a terminal
	// write writes what was measured; nil: it is written while it is measured.
	write func(w io.Writer, m export.Measured, metric flamegraph.Metric) error
	// several writes what was measured of several processes into one file; nil: a file has one.
	several func(w io.Writer, list []export.Measured, metric flamegraph.Metric) error
	// timeline: it shows when what happened. spans: it says for which span of a tracer.
	timeline, spans bool
	// stamped: its samples have times (pprofFlags).
	stamped bool
	// incident: it is a page of an incident, with its findings by these rules (nil: as they are).
	incident bool
	rules    *gvl.Rules
	// ends are the ends of file names that stand for the format, begins such a begin. json: names may end in .json, too.
	ends   []string
	begins string
	json   bool
}

// collapsedFormat is the format of collapsed stacks.
const collapsedFormat = "collapsed"

// recordingFormat is ddtop's own format, which is written while it is measured.
const recordingFormat = "ddtop"

// profileFormats are the formats that are made of weights; the first is the default.
func profileFormats() []format {
	return []format{
		{
			name: pprofFormat, about: "a profile for go tool pprof and many others", binary: true, spans: true, ends: []string{".pb.gz", ".pprof"},
			write: func(w io.Writer, m export.Measured, _ flamegraph.Metric) error { return export.WriteProfile(w, m) },
			several: func(w io.Writer, list []export.Measured, _ flamegraph.Metric) error {
				return export.WriteProfiles(w, list)
			},
		},
		{
			name: collapsedFormat, about: "collapsed stacks, for flamegraph.pl and others", ends: []string{".folded", ".collapsed"},
			write: export.WriteCollapsed, several: export.WriteCollapsedOf,
		},
		{
			name: "speedscope", about: "for https://www.speedscope.app", ends: []string{".speedscope.json"}, json: true,
			write: export.WriteSpeedscope, several: export.WriteSpeedscopeOf,
		},
		{
			name: "svg", about: "a flamegraph for any browser, with search and zoom, of one --metric", ends: []string{".svg"},
			write: export.WriteFlamegraph,
		},
		{
			name: "callgrind", about: "for KCachegrind: by function, line and call", ends: []string{".callgrind"}, begins: "callgrind.out",
			write: export.WriteCallgrind,
		},
		{
			name: "html", about: "a page of an incident for any browser: findings, timeline, flamegraph, requests, dumps", ends: []string{".html", ".htm"}, timeline: true, incident: true,
			write: func(w io.Writer, m export.Measured, _ flamegraph.Metric) error { return export.WriteIncident(w, m) },
		},
		{
			name: intervalsFormat, about: "a line of JSON for each interval of a thread (docs/jsonl.md)", ends: []string{".jsonl"}, timeline: true,
		},
		timelineFormat("firefox", "for https://profiler.firefox.com: stacks and waits by time", export.WriteFirefox),
		timelineFormat("chrome", "for https://ui.perfetto.dev: threads, the GVL and counters by time", export.WriteChrome),
	}
}

// timelineFormat is a format that shows when what happened, and has its own metrics.
func timelineFormat(name, about string, write func(io.Writer, []export.Measured) error) format {
	return format{
		name: name, about: about, timeline: true, ends: []string{"." + name + ".json"}, json: true,
		write: func(w io.Writer, m export.Measured, _ flamegraph.Metric) error {
			return write(w, []export.Measured{m})
		},
		several: func(w io.Writer, list []export.Measured, _ flamegraph.Metric) error { return write(w, list) },
	}
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

// measureProfile gathers weights per thread, stack and state for a format, and what that needs beside: what happened in the order
// of time, or whom threads worked for.
func measureProfile(ctx context.Context, src sampler.Source, length time.Duration, of format) (export.Measured, string, error) {
	if of.incident {
		return measureIncident(ctx, src, length, of.rules)
	}
	w, err := newWeighing(src, of)
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

// measureIncident gathers what the page of an incident shows.
func measureIncident(ctx context.Context, src sampler.Source, length time.Duration, rules *gvl.Rules) (export.Measured, string, error) {
	n := export.NewIncident(src.Process(), src.Dictionary(), rules)
	note, err := sampleFor(ctx, src, length, n.Feed)
	if err != nil {
		return export.Measured{}, "", err
	}
	n.Finish()
	return export.Measured{Process: src.Process(), Dict: src.Dictionary(), Weights: new(flamegraph.Snapshot), Incident: n}, note, nil
}
