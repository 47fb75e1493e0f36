package export

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// These are limits of the text in which `ddtop stat` describes requests. They bound the number of rows, the width of
// names and statements in cells, and the number of states and peers in a row. The JSON has more.
const (
	maxEndpointRows = 15
	maxRunningRows  = 15
	endpointWidth   = 44
	statementWidth  = 100
	maxWhereParts   = 4
)

// UnknownOf returns the text that replaces the route of a request, or the class of a job, if ddtop does not know it.
func UnknownOf(kind string) string {
	if kind == sampler.WorkJob.String() {
		return "(job, class not known)"
	}
	return "(route not known)"
}

// statRequests writes how much of the time each route's requests and each class's jobs took.
func statRequests(b *strings.Builder, s report.Stat) {
	r := &s.Requests
	if len(r.Endpoints) == 0 {
		return
	}
	if s.Quality.Lacks.Requests != nil {
		fmt.Fprint(b, "requests and jobs  –\n\n")
		return
	}
	fmt.Fprintf(b, "requests and jobs%s; blame: the share of the waiting for the GVL behind it\n", seenText(r.AtLeast))
	var total int64
	for i := range r.Endpoints {
		total += r.Endpoints[i].NS.Sum()
	}
	rows := [][]string{{"endpoint", "ended", "running", "/s", "p50", "p95", "max", "±", "time", "blame"}}
	tails := []string{"where its time goes"}
	list := r.Endpoints[:min(len(r.Endpoints), maxEndpointRows)]
	for i := range list {
		e := &list[i]
		rows = append(rows, []string{
			"  " + ansi.Truncate(EndpointName(e), endpointWidth, "…"), fmt.Sprint(e.Ended), fmt.Sprint(e.Running), PerSecondText(e), EndpointSpan(e, e.P50NS),
			EndpointSpan(e, e.P95NS), LongestText(e), slackText(e), Share(e.NS.Sum(), total), units.Percent(e.BlameShare),
		})
		tails = append(tails, WhereText(&e.NS, e.FiberNS, e.Peers)+queuedText(e.Queued))
	}
	var t strings.Builder
	writeTable(&t, rows)
	for i, line := range strings.Split(strings.TrimSuffix(t.String(), "\n"), "\n") {
		fmt.Fprintf(b, "%s  %s\n", line, tails[i])
	}
	if n := len(r.Endpoints) - len(list); n > 0 {
		fmt.Fprintf(b, "  and %d more\n", n)
	}
	if n := r.LeftOut; n > 0 {
		fmt.Fprintf(b, "  too many at a time: %d are among the others alone\n", n)
	}
	if f := r.Fibers; f != nil && f.Waiting > 0 {
		fmt.Fprintf(b, "  fibers: %d wait, %d of them for requests and jobs", f.Waiting, f.Requests)
		if f.AgeNS >= oldLookNS {
			fmt.Fprintf(b, ", as of %s ago", units.ProseDuration(f.AgeNS))
		}
		if f.Cut {
			fmt.Fprint(b, "; there may be more")
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintln(b)
	statRunning(b, s)
}

// queuedText describes how long the requests of an endpoint waited before a thread took them.
func queuedText(q *report.StatQueued) string {
	if q == nil {
		return ""
	}
	return fmt.Sprintf("; before that queued p50 %s, p95 %s, max %s", units.ProseDuration(q.P50NS), units.ProseDuration(q.P95NS),
		units.ProseDuration(q.MaxNS))
}

// EndpointName returns the displayed name of an endpoint.
func EndpointName(e *report.StatEndpoint) string {
	switch {
	case e.Other:
		return "(others)"
	case e.Endpoint == nil:
		return UnknownOf(e.Kind)
	}
	return flamegraph.Printable(*e.Endpoint)
}

// EndpointSpan formats ns, a quantile (such as p95) of how long the requests of an endpoint took. It returns "–" if no
// request of the endpoint was seen from start to end, because the quantile counts only such requests.
func EndpointSpan(e *report.StatEndpoint, ns int64) string {
	if e.Measured == 0 {
		return "–"
	}
	return units.ProseDuration(ns)
}

// seenText describes which requests the figures cover. If atLeast is true, ddtop has missed some requests.
func seenText(atLeast bool) string {
	if atLeast {
		return ": some were missed, so lengths are of those seen, and ≥ is a lower bound"
	}
	return ", as far as seen (shorter ones can be missed)"
}

// PerSecondText returns how many requests of an endpoint ended per second. If the number is only a lower bound, the
// text begins with "≥".
func PerSecondText(e *report.StatEndpoint) string {
	text := fmt.Sprintf("%.1f", e.PerSecond)
	if e.AtLeast && e.PerSecond >= 0.05 {
		return "≥" + text
	}
	return text
}

// slackText returns by how much the times in an endpoint's row can be wrong. It returns "" if the error is small.
func slackText(e *report.StatEndpoint) string {
	shortest := e.P50NS
	if e.Measured == 0 && !e.LongestAtLeast {
		shortest = e.LongestNS
	}
	if slack := account.Slack(shortest, e.UncertaintyNS); slack > 0 {
		return units.ProseDuration(slack)
	}
	return ""
}

// LongestText returns the length of the longest request, including requests that were seen only in part.
func LongestText(e *report.StatEndpoint) string {
	switch {
	case e.LongestNS == 0:
		return "–"
	case e.LongestAtLeast:
		return "≥" + units.ProseDuration(e.LongestNS)
	}
	return units.ProseDuration(e.LongestNS)
}

// WhereText describes in which states the time of requests was spent, the largest part first: "io 52 % (10.0.0.5:5432
// PostgreSQL), waiting 40 %". fiberNS is the time in which a request's fiber waited and no thread worked for the
// request.
func WhereText(n *report.StatStates, fiberNS int64, peers []report.StatPeerTime) string {
	list := byTime(n, timePart{"unknown", n.Unknown}, timePart{"in a fiber that waits", fiberNS})
	total := n.Sum() + fiberNS
	var words []string
	for _, p := range list[:maxWhereParts] {
		if p.ns == 0 || float64(p.ns) < SmallShare*float64(total) {
			continue
		}
		word := p.word + " " + Share(p.ns, total)
		if p.word == "io" && len(peers) > 0 && 2*peers[0].NS > p.ns && peers[0].Name != "" {
			word += " (" + flamegraph.Printable(peers[0].Name) + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// oldLookNS is the age from which on the text mentions how old the list of fibers is, in ns.
const oldLookNS = int64(2e9)

// statRunning writes the requests and jobs that were still in progress when the measurement ended, the oldest first.
func statRunning(b *strings.Builder, s report.Stat) {
	list := s.Requests.Running
	if len(list) == 0 {
		return
	}
	name := threadNames(&s)
	fmt.Fprintln(b, "in progress at the end, the oldest first")
	for i := range list[:min(len(list), maxRunningRows)] {
		q := &list[i]
		words := q.Words
		switch {
		case q.Waits:
			words = "its fiber waits"
		case q.Suspended:
			words = "suspended: its thread works for others"
		}
		fmt.Fprintf(b, "  %9s  %s  %s  %s%s\n", AgeText(&q.StatServing), ServingName(&q.StatServing), name(q.Thread), flamegraph.Printable(words),
			joined("  ", Tellings(&q.StatServing)))
	}
	if n := len(list) - maxRunningRows; n > 0 {
		fmt.Fprintf(b, "  and %d more\n", n)
	}
	fmt.Fprintln(b)
}

// AgeText returns how long ago a request began. If ddtop knows only that it began between two samples that are 20 ms
// apart, AgeText returns "≤20 ms". If nothing is known yet, it returns "new".
func AgeText(q *report.StatServing) string {
	switch {
	case q.AtLeast && q.AgeNS == 0:
		return "new"
	case q.AtLeast:
		return "≥" + units.ProseDuration(q.AgeNS)
	}
	ns, atMost := account.Length(q.AgeNS, q.UncertaintyNS)
	if atMost {
		return "≤" + units.ProseDuration(ns)
	}
	return units.ProseDuration(ns)
}

// ServingName returns the name of a request, with its path or arguments if values were read.
func ServingName(q *report.StatServing) string {
	name := UnknownOf(q.Kind)
	if q.Endpoint != nil {
		name = flamegraph.Printable(*q.Endpoint)
	}
	if q.Values != nil {
		name += " (" + flamegraph.Printable(*q.Values) + ")"
	}
	return name
}

// Tellings returns lines about what a thread is doing: its SQL statement, and the exception that it handles.
func Tellings(q *report.StatServing) []string {
	var out []string
	if q.Statement != nil {
		out = append(out, ansi.Truncate(flamegraph.Printable(*q.Statement), statementWidth, "…"))
	}
	if q.Exception != nil {
		out = append(out, "handling "+flamegraph.Printable(*q.Exception))
	}
	return out
}

// joined puts the separator before each text.
func joined(sep string, texts []string) string {
	out := ""
	for _, t := range texts {
		out += sep + t
	}
	return out
}
