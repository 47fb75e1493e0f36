package export

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestMarkdownIsBounded: a summary in Markdown has less than 200 lines, for one process or for many. A hostile name in
// it cannot end a block, begin a heading, mention a user or add HTML.
func TestMarkdownIsBounded(t *testing.T) {
	hostile := "a|b\n```\n# x @here <b> `c` " + strings.Repeat("y", 5000)
	s := report.Stat{PID: 7, DurationNS: 1e9}
	for i := range 100 {
		route := fmt.Sprint(hostile, i)
		s.Findings = append(s.Findings, report.StatFinding{ID: fmt.Sprint("rule", i), Severity: "warn", Title: hostile, Text: hostile, Next: hostile})
		s.Threads = append(s.Threads, report.StatThread{ID: sampler.ThreadID(i), FullName: hostile, NS: report.StatStates{Running: 1, IO: 1}})
		s.GVL = append(s.GVL, report.StatGVL{Ractor: sampler.RactorID(i)})
		s.Blame.Frames = append(s.Blame.Frames, report.StatPlace{StatCode: report.StatCode{Label: hostile, Path: hostile, Line: 3}, Share: .5})
		s.Requests.Endpoints = append(s.Requests.Endpoints, report.StatEndpoint{Kind: "request", Endpoint: &route})
	}
	notes := make([]sampler.Note, 1000)
	for i := range notes {
		notes[i].Text = hostile
	}
	p := sampler.Process{PID: 7, Title: hostile, RubyVersion: "3.4.1"}
	var one, many strings.Builder
	if err := WriteStatMarkdown(&one, p, &s, notes...); err != nil {
		t.Fatal(err)
	}
	list := make([]ProcessStat, 100)
	for i := range list {
		list[i] = ProcessStat{Process: p, Stat: s}
	}
	if err := WriteStatsMarkdown(&many, list); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"one": one.String(), "many": many.String()} {
		if n := strings.Count(text, "\n"); n >= 200 || n < 20 {
			t.Errorf("%s has %d lines", what, n)
		}
		if n := strings.Count(text, "```"); n != 2 {
			t.Errorf("%s: a block is ended by a name: %d", what, n)
		}
		for line := range strings.SplitSeq(text, "\n") {
			if strings.Contains(line, "@here") || strings.HasPrefix(line, "# x") || strings.Contains(line, "<b>") {
				t.Fatalf("%s: %.200s", what, line)
			}
		}
	}
}

// TestFindingsOfWorkers: the summary of several processes says how many processes have each finding. The worst
// finding comes first.
func TestFindingsOfWorkers(t *testing.T) {
	var list []ProcessStat
	for pid := range 5 {
		s := report.Stat{Findings: []report.StatFinding{{ID: "db_slow", Severity: "warn", Title: "Slow database"}}}
		if pid == 3 {
			s.Findings = append(s.Findings, report.StatFinding{ID: "deadlock", Severity: "crit", Title: "Deadlock"},
				report.StatFinding{ID: "deadlock", Severity: "crit", Title: "Deadlock before"})
		}
		if pid > 0 {
			list = append(list, ProcessStat{Process: sampler.Process{PID: pid, Title: "puma"}, Stat: s})
		}
	}
	want := []report.SharedFinding{{ID: "deadlock", Severity: "crit", Title: "Deadlock", Program: "puma", Processes: 1, Of: 4, PID: 3}, {ID: "db_slow", Severity: "warn", Title: "Slow database", Program: "puma", Processes: 4, Of: 4, PID: 1}}
	if got := findingsOf(list); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	var text, markdown strings.Builder
	if err := WriteStats(&text, list, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := WriteStatsMarkdown(&markdown, list); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "CRIT  Deadlock in 1 of 4 processes, as in pid 3\nWARN  Slow database in 4 of 4 processes, as in pid 1\n") {
		t.Error(text.String())
	}
	if !strings.Contains(markdown.String(), "* crit: Deadlock in 1 of 4 processes, as in pid 3\n* warn: Slow database") || !strings.Contains(markdown.String(), "**puma** pid") {
		t.Error(markdown.String())
	}
}

// TestSharedByProgram: if two programs have the same finding, each program has its own line, with the number of its
// processes.
func TestSharedByProgram(t *testing.T) {
	var list []ProcessStat
	for pid, title := range []string{"puma", "puma", "sidekiq", "puma"} {
		s := report.Stat{Findings: []report.StatFinding{{ID: "db_slow", Severity: "warn", Title: "Slow database"}}}
		if pid == 1 {
			s.Findings = nil
		}
		list = append(list, ProcessStat{Process: sampler.Process{PID: pid, Title: title}, Stat: s})
	}
	want := []SharedLine{{"warn", "Slow database in 2 of 3 processes of puma, as in pid 0", 0}, {"warn", "Slow database in 1 of 1 processes of sidekiq, as in pid 2", 2}}
	if got := SharedLines(list); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
