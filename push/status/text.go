// Package status serves the status page of `ddtop push` over HTTP. The page says whether ddtop works, and has ddtop's
// figures in the text format of Prometheus.
package status

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
)

// Figures are what the status page reports. Times are in ns. Sums count from the start of ddtop.
type Figures struct {
	Version string
	// CPUNS is ddtop's own CPU time. It is negative if it is unknown.
	CPUNS        int64
	Destinations []push.Stats
	// Processes is the number of followed processes.
	Processes int
	Services  []Service
	// Watched is true if ddtop looks for findings. Findings has the numbers of findings for each service. LeftOut
	// counts messages about findings that were left out because of the limit per hour.
	Watched  bool
	Findings []alert.Count
	LeftOut  int64
	// Alerts are the destinations of messages about findings. Captures are the destinations of captures, which are a
	// recording and an HTML page about an alert.
	Alerts, Captures []push.Stats
	// Exact is the state of exact mode. It is nil without --exact.
	Exact *Exact
}

// Exact describes exact mode: the number of processes that are followed in this mode, and the processes in which the
// mode pauses.
type Exact struct {
	Processes int
	Resting   []Resting
}

// Resting is a process in which exact mode pauses, because the mode has ended by itself. Why is the reason, as a part
// of a sentence. Until is when ddtop tries exact mode again.
type Resting struct {
	PID   int
	Why   string
	Until time.Time
}

// A Service has the figures of one service: sums over its processes, including processes that have ended.
type Service struct {
	Name string
	// Processes is the number of the service's processes that ddtop follows now.
	Processes int
	// ObservedNS is how long ddtop measured the service's processes. HeldNS is how long threads held the GVL, added up
	// for all ractors. WaitingNS is how long threads waited for the GVL, added up for all threads. GCNS is the time of
	// garbage collection. All are in ns.
	ObservedNS, HeldNS, WaitingNS, GCNS int64
	// Waits counts the ended waits for the GVL by their length. It has one number for each upper bound in Buckets, and
	// a last number for longer waits. WaitsNS is the sum of the waits' lengths, in ns. ddtop may know only bounds of a
	// wait's length. Then it uses the upper bound for both.
	Waits   [len(Buckets) + 1]int64
	WaitsNS int64
	// P99NS is the 99th percentile of the waits for the GVL in the last one to two minutes, in ns. ddtop knows only a
	// lower and an upper bound of a wait's length, and uses the lower bound here. P99NS is zero if there was no wait.
	P99NS int64
	// Backlog is the number of connections and requests that wait for a free thread in the service. BacklogKnown is
	// true if this number is known.
	Backlog      int64
	BacklogKnown bool
	// TooFew is true if there were too few samples to compute P99NS.
	TooFew bool
}

// Buckets are the upper bounds of the lengths by which waits for the GVL are counted.
var Buckets = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
}

// Bucket returns the index in Service.Waits that counts a wait of ns nanoseconds.
func Bucket(ns int64) int {
	for i, b := range Buckets {
		if ns <= int64(b) {
			return i
		}
	}
	return len(Buckets)
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// page holds the metrics of the status page at one moment, by their names.
type page struct {
	metrics map[string]*metric
	// kind and help describe the metric to which values are being added now. err is the first error.
	kind, help string
	err        error
}

// metric is a metric with its values.
type metric struct {
	kind, help string
	values     []value
}

// value has a metric's lines of text for one set of labels.
type value struct{ labels, lines string }

// metric begins a new metric. The next calls of the method value add its values. kind is the metric's type (counter,
// gauge or histogram), and help is its description.
func (p *page) metric(kind, help string) { p.kind, p.help = kind, help }

// value adds a value to the current metric. The list labels has each label's name followed by its value, and is sorted
// by name.
func (p *page) value(name string, v float64, labels ...string) {
	of := labelText(labels)
	p.add(name, value{labels: of, lines: name + braced(of) + " " + number(v) + "\n"})
}

// histogram adds a histogram. counts has the number of values in each of Buckets, and at the end the number of larger
// values. sum is the sum of all values.
func (p *page) histogram(name string, counts *[len(Buckets) + 1]int64, sum float64, labels ...string) {
	of, n := labelText(labels), int64(0)
	var b strings.Builder
	for i, c := range counts {
		bound := math.Inf(1)
		if i < len(Buckets) {
			bound = Buckets[i].Seconds()
		}
		n += c
		fmt.Fprintf(&b, "%s_bucket%s %d\n", name, braced(of+`,le="`+number(bound)+`"`), n)
	}
	fmt.Fprintf(&b, "%s_sum%s %s\n%s_count%s %d\n", name, braced(of), number(sum), name, braced(of), n)
	p.add(name, value{of, b.String()})
}

// add adds a value to the page. If the page already has a value with the same name and labels, add sets p.err, because
// Prometheus would refuse the page.
func (p *page) add(name string, v value) {
	m := p.metrics[name]
	if m == nil {
		m = &metric{kind: p.kind, help: p.help}
		p.metrics[name] = m
	}
	for i := range m.values {
		if m.values[i].labels == v.labels {
			p.err = cmp.Or(p.err, fmt.Errorf("metric %s has two values with the labels {%s}", name, v.labels))
		}
	}
	m.values = append(m.values, v)
}

// escapes replaces characters that are not allowed in descriptions of metrics. labelEscapes replaces characters that
// are not allowed in values of labels.
var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// labelText returns the text of labels. A program's name can be any bytes, so labelText makes the values valid UTF-8.
func labelText(labels []string) string {
	var b strings.Builder
	for i := 0; i+1 < len(labels); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(labels[i] + `="` + labelEscapes.Replace(strings.ToValidUTF8(labels[i+1], "\ufffd")) + `"`)
	}
	return b.String()
}

func braced(labels string) string {
	if labels == "" {
		return ""
	}
	return "{" + labels + "}"
}

func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Write writes figures in Prometheus' text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats).
// ddtop does not use the module client_golang, because it would make ddtop 1.9 MB larger. The tests check the text with
// Prometheus' own parser (internal/pushtest).
func Write(w io.Writer, f *Figures) error {
	p := &page{metrics: make(map[string]*metric)}
	p.figures(f)
	if p.err != nil {
		return p.err
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.metrics)) {
		m := p.metrics[name]
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, escapes.Replace(m.help), name, m.kind)
		for i := range m.values {
			b.WriteString(m.values[i].lines)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *page) figures(f *Figures) {
	p.metric("gauge", "1, with ddtop's version.")
	p.value("ddtop_build_info", 1, "version", f.Version)
	if f.CPUNS >= 0 {
		p.metric("counter", "CPU time of ddtop itself.")
		p.value("ddtop_cpu_seconds_total", seconds(f.CPUNS))
	}
	p.metric("gauge", "Processes that are followed now.")
	p.value("ddtop_processes", float64(f.Processes))
	if x := f.Exact; x != nil {
		p.metric("gauge", "Processes of which every change of the GVL is followed now.")
		p.value("ddtop_exact_processes", float64(x.Processes))
		p.metric("gauge", "Processes in which exact mode has ended itself and is tried again later.")
		p.value("ddtop_exact_resting_processes", float64(len(x.Resting)))
	}
	p.destinations(f.Destinations)
	p.services(f.Services)
	p.findings(f)
}

// findings adds the metrics of findings, and of the destinations of messages about them.
func (p *page) findings(f *Figures) {
	for _, m := range []struct {
		name, kind, help string
		of               func(*alert.Count) (v float64, known bool)
	}{
		{"ddtop_finding_active", "gauge", "Processes of the service that have the finding now.",
			func(c *alert.Count) (float64, bool) { return float64(c.Active), true }},
		{"ddtop_findings_total", "counter", "How often the finding began in a process of the service.",
			func(c *alert.Count) (float64, bool) { return float64(c.Raised), true }},
		{"ddtop_finding_oldest_age_seconds", "gauge", "How long the finding has been active in the process that has had it for longest.",
			func(c *alert.Count) (float64, bool) { return time.Since(c.Oldest).Seconds(), c.Active > 0 }},
	} {
		p.metric(m.kind, m.help)
		for i := range f.Findings {
			c := &f.Findings[i]
			if v, known := m.of(c); known {
				p.value(m.name, v, "rule", c.Rule, "service", c.Service, "severity", c.Severity)
			}
		}
	}
	if f.Watched {
		p.metric("counter", "Messages about findings that were left out, because there were too many about a process.")
		p.value("ddtop_alerts_left_out_total", float64(f.LeftOut))
	}
	p.others("ddtop_alerts", "Messages about findings", f.Alerts)
	p.others("ddtop_captures", "Files of captures", f.Captures)
}

// others adds the metrics of the destinations that get messages or captures instead of profiles.
func (p *page) others(prefix, what string, all []push.Stats) {
	for _, m := range []struct {
		name, kind, help string
		of               func(*push.Stats) int64
	}{
		{"_sent_total", "counter", " that a destination took.", func(s *push.Stats) int64 { return s.Sent }},
		{"_failures_total", "counter", ": tries to send that failed and were made again.", func(s *push.Stats) int64 { return s.Failures }},
		{"_refused_total", "counter", " that a destination did not take for good.", func(s *push.Stats) int64 { return s.Refused }},
		{"_lost_total", "counter", " that were given up, or had no room.", (*push.Stats).Dropped},
		{"_waiting", "gauge", " that wait to be sent.", func(s *push.Stats) int64 { return int64(s.Spool.Count) }},
	} {
		p.metric(m.kind, what+m.help)
		for i := range all {
			p.value(prefix+m.name, float64(m.of(&all[i])), "to", all[i].Destination)
		}
	}
}

func (p *page) destinations(all []push.Stats) {
	if len(all) == 0 {
		return
	}
	for _, m := range []struct {
		name, kind, help string
		of               func(*push.Stats) float64
	}{
		{"ddtop_push_profiles_sent_total", "counter", "Profiles that a destination took.", func(s *push.Stats) float64 { return float64(s.Sent) }},
		{"ddtop_push_sent_bytes_total", "counter", "Size of the profiles that a destination took.", func(s *push.Stats) float64 { return float64(s.SentBytes) }},
		{"ddtop_push_failures_total", "counter", "Tries to send that failed and were made again.", func(s *push.Stats) float64 { return float64(s.Failures) }},
		{"ddtop_push_profiles_refused_total", "counter", "Profiles that a destination did not take for good.", func(s *push.Stats) float64 { return float64(s.Refused) }},
		{"ddtop_push_profiles_lost_total", "counter", "Profiles that were given up: dropped from a full spool, never in one, or never taken.", func(s *push.Stats) float64 { return float64(s.Dropped()) }},
		{"ddtop_push_profiles_given_up_total", "counter", "Profiles that were dropped after many tries, although others were taken.", func(s *push.Stats) float64 { return float64(s.GivenUp) }},
		{"ddtop_push_profiles_set_aside", "gauge", "Profiles that are not taken while others are, and are tried again later.", func(s *push.Stats) float64 { return float64(s.Spool.Aside) }},
		{"ddtop_push_spool_profiles", "gauge", "Profiles that wait to be sent.", func(s *push.Stats) float64 { return float64(s.Spool.Count) }},
		{"ddtop_push_spool_bytes", "gauge", "Size of the profiles that wait to be sent.", func(s *push.Stats) float64 { return float64(s.Spool.Bytes) }},
		{"ddtop_push_failing", "gauge", "1 while the last try to send has failed.", func(s *push.Stats) float64 {
			if s.LastError != "" {
				return 1
			}
			return 0
		}},
		{"ddtop_push_last_sent_timestamp_seconds", "gauge", "When a destination took a profile last, since 1970; 0: never.", func(s *push.Stats) float64 {
			if s.LastSent.IsZero() {
				return 0
			}
			return float64(s.LastSent.UnixMilli()) / 1e3
		}},
	} {
		p.metric(m.kind, m.help)
		for i := range all {
			p.value(m.name, m.of(&all[i]), "to", all[i].Destination)
		}
	}
}

// p99 is the name of a metric of services. If there were too few samples, only this metric is left out.
const p99 = "ddtop_gvl_wait_p99_seconds"

// backlog is the name of a metric of services. It is written only for a service whose backlog is known, such as a
// server.
const backlog = "ddtop_backlog"

func (p *page) services(all []Service) {
	if len(all) == 0 {
		return
	}
	for _, m := range []struct {
		name, kind, help string
		of               func(*Service) float64
	}{
		{"ddtop_service_processes", "gauge", "Processes of the service that are followed now.", func(s *Service) float64 { return float64(s.Processes) }},
		{"ddtop_observed_seconds_total", "counter", "For how long the service's processes were measured, added up.", func(s *Service) float64 { return seconds(s.ObservedNS) }},
		{"ddtop_gvl_held_seconds_total", "counter", "How long a thread held the GVL; by the time observed it is the share of it.", func(s *Service) float64 { return seconds(s.HeldNS) }},
		{"ddtop_gvl_waiting_seconds_total", "counter", "How long threads waited for the GVL, added up; by the time observed it is how many waited.", func(s *Service) float64 { return seconds(s.WaitingNS) }},
		{"ddtop_gc_seconds_total", "counter", "How long garbage was collected.", func(s *Service) float64 { return seconds(s.GCNS) }},
		{backlog, "gauge", "Connections that are not accepted and requests that no thread has taken, now.", func(s *Service) float64 { return float64(s.Backlog) }},
		{p99, "gauge", "What 99 % of the waits for the GVL of the last one to two minutes did not exceed, by the lower bound of each.", func(s *Service) float64 { return seconds(s.P99NS) }},
	} {
		p.metric(m.kind, m.help)
		for i := range all {
			if m.name == p99 && all[i].TooFew || m.name == backlog && !all[i].BacklogKnown {
				continue // leave out a figure that is not known
			}
			p.value(m.name, m.of(&all[i]), "service", all[i].Name)
		}
	}
	p.metric("histogram", "Waits for the GVL that are over, by the upper bound of their length.")
	for i := range all {
		p.histogram("ddtop_gvl_wait_seconds", &all[i].Waits, seconds(all[i].WaitsNS), "service", all[i].Name)
	}
}
