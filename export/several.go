package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// ProcessStat is the measurement of one process, for a report about several processes.
type ProcessStat struct {
	Process sampler.Process
	Stat    report.Stat
}

// ProcessDump is the thread dump of one process, for a dump of several processes.
type ProcessDump struct {
	Process sampler.Process
	Dump    *Dump
}

// sumUp adds up the measurements of several processes.
func sumUp(list []ProcessStat) report.Sum {
	out := report.Sum{Processes: len(list)}
	for i := range list {
		s := &list[i].Stat
		out.Threads += len(s.Threads)
		out.RSSBytes += s.Process.RSSBytes
		out.Findings += len(s.Findings)
		if s.Process.SpanNS > 0 {
			out.CPUShare += float64(s.Process.CPUNS) / float64(s.Process.SpanNS)
		}
		if s.Quality.Lacks.States == nil {
			for _, g := range s.GVL {
				out.WaitingMean += g.WaitingMean
			}
		}
	}
	return out
}

// sumRow returns the table's row that sums up all processes. It has no shares of a GVL and no quantiles, because adding
// these makes no sense.
func sumRow(s report.Sum) []string {
	return []string{"all " + units.Plural(s.Processes, "process", "processes"), "", "", strconv.Itoa(s.Threads), "",
		fmt.Sprintf("%.2f", s.WaitingMean), "", units.Percent(s.CPUShare), "", units.FineBytes(s.RSSBytes),
		units.Plural(s.Findings, "finding", "findings")}
}

// These are the formats of the times at which a process started and ended (RFC 3339). The kernel gives the start in
// steps of 10 ms, so the start has two digits after the second. ddtop notices the end of a process when its list of
// processes lacks the process. The end is the time of this list.
const (
	startFormat = "2006-01-02T15:04:05.00Z07:00"
	endFormat   = "2006-01-02T15:04:05.000Z07:00"
)

func children(list []sampler.Relative) []report.Child {
	out := []report.Child{}
	for _, r := range list {
		if r.Root {
			continue
		}
		c := report.Child{PID: r.PID, Parent: r.Parent, Title: r.Title, Part: report.TextOrNil(r.Part),
			Start: r.StartedAt.Format(startFormat), Sampled: r.Source != nil, Why: report.TextOrNil(r.Why)}
		if !r.EndedAt.IsZero() {
			c.Ended = report.TextOrNil(r.EndedAt.Format(endFormat))
		}
		out = append(out, c)
	}
	return out
}

// WriteStatsJSON writes the JSON of `ddtop stat` with several processes: an object for each process, and the child
// processes that were found.
func WriteStatsJSON(w io.Writer, list []ProcessStat, relatives []sampler.Relative, forgotten int) error {
	objects := []json.RawMessage{}
	for _, p := range list {
		var b bytes.Buffer
		if err := WriteStatJSON(&b, p.Stat); err != nil {
			return err
		}
		objects = append(objects, b.Bytes())
	}
	all := sumUp(list)
	return WriteJSON(w, report.Several{All: &all, Processes: objects, Siblings: siblings(list), Findings: findingsOf(list),
		Workers: oneMoreWorker(list), Children: children(relatives), Forgotten: forgotten})
}

// WriteDumpsJSON writes the JSON of `ddtop dump` with several processes.
func WriteDumpsJSON(w io.Writer, list []ProcessDump, relatives []sampler.Relative, forgotten int) error {
	dumps := []*Dump{}
	for _, p := range list {
		dumps = append(dumps, p.Dump.shown())
	}
	return WriteJSON(w, report.Several{Processes: dumps, Children: children(relatives), Forgotten: forgotten})
}

// WriteStats writes `ddtop stat` of several processes for people: first a table with a row for each process, then the
// full text about each process.
func WriteStats(w io.Writer, list []ProcessStat, relatives []sampler.Relative, forgotten int) error {
	var b strings.Builder
	rows := [][]string{{"program", "pid", "ruby", "threads", "GVL", "waiting", "p99", "CPU", "GC", "RSS", "worst finding"}}
	if all := sumUp(list); len(list) > 1 {
		rows = append(rows, sumRow(all))
	}
	for i := range list {
		rows = append(rows, processRow(&list[i]))
	}
	writeProcessTable(&b, rows)
	writeShared(&b, list)
	writeSiblings(&b, list)
	writeWorkers(&b, oneMoreWorker(list))
	writeRelatives(&b, relatives, forgotten)
	for i := range list {
		fmt.Fprintf(&b, "\n── %s ──\n", ProcessName(list[i].Process))
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
		b.Reset()
		if err := WriteStat(w, list[i].Stat); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteDumps writes several thread dumps for people.
func WriteDumps(w io.Writer, list []ProcessDump, relatives []sampler.Relative, forgotten int) error {
	for i, p := range list {
		gap := ""
		if i > 0 {
			gap = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s── %s ──\n", gap, ProcessName(p.Process)); err != nil {
			return err
		}
		if err := p.Dump.WriteText(w); err != nil {
			return err
		}
	}
	var b strings.Builder
	writeRelatives(&b, relatives, forgotten)
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(w, "\n"+b.String())
	return err
}

// ProgramName returns the name of a process's program as printable text.
func ProgramName(p sampler.Process) string {
	if name := p.Name(); name != "" {
		return flamegraph.Printable(name)
	}
	return "ruby"
}

// ProcessName returns a name by which users can tell a process from others: its program and PID.
func ProcessName(p sampler.Process) string {
	return fmt.Sprintf("%s  pid %d", ProgramName(p), p.PID)
}

// titleWidth limits the width of a program's name in the table, in columns.
const titleWidth = 24

func processRow(p *ProcessStat) []string {
	s := &p.Stat
	ruby := p.Process.RubyVersion
	if p.Process.JIT != "" {
		ruby += " +" + p.Process.JIT
	}
	row := []string{ansi.Truncate(ProgramName(p.Process), titleWidth, "…"), strconv.Itoa(p.Process.PID), ruby,
		strconv.Itoa(len(s.Threads))}
	held, waiting, p99 := 0.0, 0.0, "–"
	// show the share of the busiest ractor's GVL, but the waiting threads of all ractors, as on the screen
	for _, g := range s.GVL {
		if held <= g.HeldShare {
			held = g.HeldShare
			if g.Waits.Count > 0 {
				p99 = g.Waits.P99().Prose()
			}
		}
		waiting += g.WaitingMean
	}
	gc := "–"
	if s.GC.Valid {
		gc = units.Percent(s.GC.Share)
	}
	finding := "none"
	if f := worstFinding(s.Findings); f != nil {
		finding = strings.ToUpper(f.Severity) + " " + f.When() + flamegraph.Printable(f.Title)
	}
	heldText, waitingText := units.Percent(held), fmt.Sprintf("%.2f", waiting)
	if s.Quality.Lacks.States != nil {
		heldText, waitingText, gc = "–", "–", "–"
	}
	if s.Quality.Lacks.Waits != nil {
		p99 = "–"
	}
	return append(row, heldText, waitingText, p99, CPUText(&s.Process), gc, units.FineBytes(s.Process.RSSBytes), finding)
}

// worstFinding returns the first finding of the highest severity among the active findings. It returns an ended finding
// only if no finding is active.
func worstFinding(list []report.StatFinding) *report.StatFinding {
	if n := slices.IndexFunc(list, func(f report.StatFinding) bool { return f.UntilNS != nil }); n > 0 {
		list = list[:n]
	}
	order := []string{findings.SeverityCrit.String(), findings.SeverityWarn.String(), findings.SeverityInfo.String()}
	for _, severity := range order {
		if i := slices.IndexFunc(list, func(f report.StatFinding) bool { return f.Severity == severity }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// writeProcessTable is like writeTable, but aligns the last column, which is a sentence, to the left.
func writeProcessTable(b *strings.Builder, rows [][]string) {
	last := len(rows[0]) - 1
	var left strings.Builder
	cut := make([][]string, len(rows))
	for i := range rows {
		cut[i] = rows[i][:last]
	}
	writeTable(&left, cut)
	for i, line := range strings.Split(strings.TrimSuffix(left.String(), "\n"), "\n") {
		fmt.Fprintf(b, "%s  %s\n", line, rows[i][last])
	}
}

// writeRelatives lists the processes that have ended, and processes that were found but not sampled.
func writeRelatives(b *strings.Builder, list []sampler.Relative, forgotten int) {
	for _, r := range list {
		if r.Why == "" {
			continue
		}
		when := ""
		if !r.EndedAt.IsZero() {
			when = " " + r.EndedAt.Format("15:04:05")
		}
		fmt.Fprintf(b, "pid %d (child of %d, %s): %s%s\n", r.PID, r.Parent, flamegraph.Printable(r.Title), flamegraph.Printable(r.Why), when)
	}
	if forgotten > 0 {
		fmt.Fprintf(b, "and %d more that have ended\n", forgotten)
	}
}
