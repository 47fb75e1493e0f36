package export

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// These are limits of the lists in a Markdown summary, in entries. Together the lists have less than 200 lines.
// maxMarkdownCell limits the length of an entry's text, in bytes.
const (
	maxMarkdownFindings  = 20
	maxMarkdownNotes     = 10
	maxMarkdownHead      = 30
	maxMarkdownThreads   = 20
	maxMarkdownEndpoints = 8
	maxMarkdownProcesses = 30
	maxMarkdownCell      = 1000
)

// markup matches < or & where they could begin a tag or an entity. "<1 %" does not match.
var markup = regexp.MustCompile(`[<&]([A-Za-z/!?#])`)

var markdownText = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "|", `\|`, "[", `\[`, "]", `\]`, "~", `\~`,
	"@", "&#64;")

// Markdown escapes a printable text so that it cannot act as Markdown or HTML, end its table cell, or notify users
// (@here). A < or & that cannot begin a tag or an entity is not escaped, because a chat shows "&lt;" unchanged.
func Markdown(s string) string {
	return markdownText.Replace(markup.ReplaceAllStringFunc(s, func(m string) string {
		return map[byte]string{'<': "&lt;", '&': "&amp;"}[m[0]] + m[1:]
	}))
}

// cell makes a text safe for a cell of a table in Markdown.
func cell(s string) string {
	s = flamegraph.Printable(s)
	if len(s) > maxMarkdownCell {
		s = strings.ToValidUTF8(s[:maxMarkdownCell], "") + "…"
	}
	return Markdown(s)
}

// WriteStatMarkdown writes the summary of a measurement for a ticket or a chat. The key Y on the screen copies a text
// with the same contents: findings, notes, figures, causes of waiting, threads, requests and jobs.
func WriteStatMarkdown(w io.Writer, p sampler.Process, s *report.Stat, notes ...sampler.Note) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** pid %d, ruby %s, %s until %s\n\n", cell(ProgramName(p)), s.PID, cell(p.RubyVersion), units.ProseDuration(s.DurationNS),
		p.WallTime(s.EndNS).Format("2006-01-02 15:04:05"))
	if len(s.Findings) == 0 {
		b.WriteString("* no findings\n")
	}
	for i := range s.Findings {
		f := &s.Findings[i]
		if i >= maxMarkdownFindings {
			fmt.Fprintf(&b, "* and %d more findings\n", len(s.Findings)-i)
			break
		}
		fmt.Fprintf(&b, "* %s**%s**: %s\n", f.When(), cell(f.Title), cell(f.Text))
		if f.Next != "" {
			fmt.Fprintf(&b, "  → %s\n", cell(f.Next))
		}
	}
	for _, n := range notes[:min(len(notes), maxMarkdownNotes)] {
		fmt.Fprintf(&b, "* noted %s after the start: %s\n", units.ProseDuration(max(n.AtNS-s.StartNS, 0)), cell(n.Text))
	}
	var head strings.Builder
	statHead(&head, *s)
	lines := strings.Split(strings.TrimSpace(head.String()), "\n")
	lines = lines[:min(len(lines), maxMarkdownHead)]
	fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.ReplaceAll(strings.Join(lines, "\n"), "```", "'''"))
	if places := s.Blame.Frames[:min(len(s.Blame.Frames), maxBlamedPlaces)]; len(places) > 0 && s.Quality.Lacks.Waits == nil && s.Quality.Lacks.Stacks == nil {
		b.WriteString("\nWhose code makes others wait for the GVL:\n\n")
		for i, x := range places {
			fmt.Fprintf(&b, "%d. %s %s\n", i+1, units.Percent(x.Share), cell(PlaceText(x)))
		}
	}
	markdownThreads(&b, s)
	markdownRequests(&b, s)
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownThreads(b *strings.Builder, s *report.Stat) {
	b.WriteString("\n| thread | run | wait | io | rest |\n|---|--:|--:|--:|--:|\n")
	if s.Quality.Lacks.States != nil {
		fmt.Fprintf(b, "| %s | – | – | – | – |\n", units.Plural(len(s.Threads), "thread", "threads"))
		return
	}
	for i := range s.Threads {
		t := &s.Threads[i]
		if i >= maxMarkdownThreads {
			fmt.Fprintf(b, "| and %d more | | | | |\n", len(s.Threads)-i)
			break
		}
		all := int64(0)
		for state, ns := range t.NS.Array() {
			if gvl.State(state) != gvl.Unknown {
				all += ns
			}
		}
		run := t.NS.Running + t.NS.Stalled + t.NS.GC
		x := units.Percents(run, t.NS.Waiting, t.NS.IO, all-run-t.NS.Waiting-t.NS.IO)
		fmt.Fprintf(b, "| %s | %d %% | %d %% | %d %% | %d %% |\n", cell(t.FullName), x[0], x[1], x[2], x[3])
	}
}

func markdownRequests(b *strings.Builder, s *report.Stat) {
	list := s.Requests.Endpoints
	if len(list) == 0 || s.Quality.Lacks.Requests != nil {
		return
	}
	fmt.Fprintf(b, "\nRequests and jobs that were seen%s:\n\n", markdownMissed(s.Requests.AtLeast))
	b.WriteString("| endpoint | ended | running | p50 | p95 | longest | blame |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for i := range list {
		e := &list[i]
		if i >= maxMarkdownEndpoints {
			fmt.Fprintf(b, "| and %d more | | | | | | |\n", len(list)-i)
			break
		}
		fmt.Fprintf(b, "| %s | %d | %d | %s | %s | %s | %s |\n", cell(EndpointName(e)), e.Ended, e.Running, EndpointSpan(e, e.P50NS), EndpointSpan(e, e.P95NS),
			LongestText(e), units.Percent(min(e.BlameShare, 1)))
	}
}

func markdownMissed(atLeast bool) string {
	if atLeast {
		return " (some were missed)"
	}
	return ""
}

// findingsOf returns each finding once per program, with the number of the program's processes that have it. The most
// severe finding comes first.
func findingsOf(list []ProcessStat) []report.SharedFinding {
	out := []report.SharedFinding{}
	of := make(map[string]int)
	for i := range list {
		program := list[i].Process.Title
		of[program]++
		seen := make(map[string]bool)
		for j := range list[i].Stat.Findings {
			f := &list[i].Stat.Findings[j]
			if seen[f.ID] {
				continue // later elements are older findings with the same ID
			}
			seen[f.ID] = true
			at := slices.IndexFunc(out, func(x report.SharedFinding) bool { return x.ID == f.ID && x.Program == program })
			if at < 0 {
				at = len(out)
				out = append(out, report.SharedFinding{ID: f.ID, Program: program})
			}
			x := &out[at]
			x.Processes++
			if x.Severity == "" || severityRank(f.Severity) > severityRank(x.Severity) {
				x.Severity, x.Title, x.PID = f.Severity, f.Title, list[i].Process.PID
			}
		}
	}
	for i := range out {
		out[i].Of = of[out[i].Program]
	}
	sorting.StableBy(out, func(a, b report.SharedFinding) int {
		if d := severityRank(b.Severity) - severityRank(a.Severity); d != 0 {
			return d
		}
		return b.Processes - a.Processes
	})
	return out
}

func severityRank(severity string) int {
	return slices.Index([]string{findings.SeverityInfo.String(), findings.SeverityWarn.String(), findings.SeverityCrit.String()}, severity)
}

// sharedFinding describes in one line a finding that several processes have. The parameter all is the number of
// processes of all programs together.
func sharedFinding(f *report.SharedFinding, all int) string {
	program := ""
	if f.Of < all {
		program = " of " + cmp.Or(f.Program, "ruby")
	}
	return fmt.Sprintf("%s in %d of %d processes%s, as in pid %d", f.Title, f.Processes, f.Of, program, f.PID)
}

// A SharedLine is a finding of several processes, as one printable line. PID is the process in which the finding is
// worst.
type SharedLine struct {
	Severity string `json:"severity"`
	Text     string `json:"text"`
	PID      int    `json:"pid"`
}

// SharedLines returns the findings of several processes, the most severe first.
func SharedLines(list []ProcessStat) []SharedLine {
	var out []SharedLine
	for _, f := range findingsOf(list) {
		if len(out) < maxMarkdownFindings {
			out = append(out, SharedLine{f.Severity, flamegraph.Printable(sharedFinding(&f, len(list))), f.PID})
		}
	}
	return out
}

// writeShared writes the findings of several processes, a line each, the worst first.
func writeShared(b *strings.Builder, list []ProcessStat) {
	if len(list) < 2 {
		return
	}
	for _, f := range findingsOf(list) {
		fmt.Fprintf(b, "%s  %s\n", strings.ToUpper(f.Severity), flamegraph.Printable(sharedFinding(&f, len(list))))
	}
}

// WriteStatsMarkdown writes the summary of several processes: the findings of all, and a row for each process. Then
// comes the full summary of the process with the worst finding.
func WriteStatsMarkdown(w io.Writer, list []ProcessStat) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n", units.Plural(len(list), "process", "processes"))
	shared := findingsOf(list)
	if len(shared) == 0 {
		b.WriteString("* no findings\n")
	}
	for i := range shared {
		if i >= maxMarkdownFindings {
			fmt.Fprintf(&b, "* and %d more findings\n", len(shared)-i)
			break
		}
		fmt.Fprintf(&b, "* %s: %s\n", shared[i].Severity, cell(sharedFinding(&shared[i], len(list))))
	}
	b.WriteString("\n| program | pid | ruby | threads | GVL | waiting | p99 | CPU | GC | RSS | worst finding |\n|---|--:|---|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for i := range list {
		if i >= maxMarkdownProcesses {
			fmt.Fprintf(&b, "| and %d more | | | | | | | | | | |\n", len(list)-i)
			break
		}
		for _, text := range processRow(&list[i]) {
			b.WriteString("| " + cell(text) + " ")
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for i := range list {
		if p := &list[i]; len(shared) > 0 && p.Process.PID == shared[0].PID || len(list) == 1 {
			return WriteStatMarkdown(w, p.Process, &p.Stat)
		}
	}
	return nil
}
