package export

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

func TestTextsOfSeveralProcesses(t *testing.T) {
	start := time.Date(2026, 5, 4, 14, 2, 52, 0, time.UTC)
	relatives := []sampler.Relative{
		{PID: 11, Title: "master", Root: true, StartedAt: start},
		{PID: 12, Parent: 11, Title: "evil\x1b[2J", StartedAt: start, EndedAt: start.Add(time.Minute), Why: "exited"},
		{PID: 13, Parent: 11, Title: "sh", StartedAt: start, Why: "no Ruby (/bin/sh)"},
	}
	list := []ProcessStat{
		{Process: sampler.Process{PID: 11, Title: "master", RubyVersion: "3.4.7"}, Stat: report.Stat{PID: 11, DurationNS: 1e9,
			Findings: []report.StatFinding{{Severity: "warn", Title: "slow"}, {Severity: "crit", Title: "stuck\x1b[2J"}}}},
	}
	var b bytes.Buffer
	if err := WriteStats(&b, list, relatives, 3); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"master    11  3.4.7", "CRIT stuck", "pid 12 (child of 11, evil", "exited 14:03:52", "no Ruby (/bin/sh)", "and 3 more that have ended", "── master  pid 11 ──"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("an escape sequence gets through")
	}
	b.Reset()
	if err := WriteStatsJSON(&b, list, relatives, 3); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Processes []struct{ PID int }
		Children  []report.Child
		Forgotten int `json:"children_forgotten"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Processes) != 1 || got.Processes[0].PID != 11 || len(got.Children) != 2 || got.Forgotten != 3 ||
		got.Children[0].Ended == nil || *got.Children[0].Ended != "2026-05-04T14:03:52.000Z" || got.Children[1].Ended != nil || *got.Children[1].Why != "no Ruby (/bin/sh)" {
		t.Errorf("%s", b.String())
	}
}

// TestStatsAddUp: the first row sums up all processes. Columns whose values cannot be added are left out of this row.
func TestStatsAddUp(t *testing.T) {
	one := func(pid int, cpu, rss int64) ProcessStat {
		s := report.Stat{PID: pid, DurationNS: 1e9, Threads: make([]report.StatThread, 3),
			Findings: []report.StatFinding{{Severity: "warn", Title: "slow"}},
			GVL:      []report.StatGVL{{HeldShare: .5, WaitingMean: .75}}}
		s.Process.SpanNS, s.Process.CPUNS, s.Process.RSSBytes = 1e9, cpu, rss
		return ProcessStat{sampler.Process{PID: pid, Title: "puma", Part: "w0"}, s}
	}
	list := []ProcessStat{one(11, 5e8, 50e6), one(12, 25e7, 40e6)}
	var b bytes.Buffer
	if err := WriteStats(&b, list, nil, 0); err != nil {
		t.Fatal(err)
	}
	row := strings.Fields(strings.Split(b.String(), "\n")[1])
	if got := strings.Join(row, " "); got != "all 2 processes 6 1.50 75 % 90.0 MB 2 findings" {
		t.Errorf("%q", got)
	}
	if !strings.Contains(b.String(), "── puma w0  pid 11 ──") {
		t.Errorf("the worker has no number:\n%s", b.String())
	}
	b.Reset()
	if err := WriteStatsJSON(&b, list, nil, 0); err != nil {
		t.Fatal(err)
	}
	var got struct{ All report.Sum }
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.All != (report.Sum{Processes: 2, Threads: 6, CPUShare: .75, WaitingMean: 1.5, RSSBytes: 90e6, Findings: 2}) {
		t.Errorf("%+v (%v)", got.All, err)
	}
}

// TestDumpsOfSeveralProcesses: each dump has its process's name as a heading, with an empty line before the next
// dump. Processes that could not be read are listed at the end.
func TestDumpsOfSeveralProcesses(t *testing.T) {
	one := func(pid, threads int) ProcessDump {
		s := &sampler.Sample{}
		for i := range threads {
			s.Threads = append(s.Threads, sampler.Thread{ID: sampler.ThreadID(i + 1)})
		}
		p := sampler.Process{PID: pid, Title: "worker"}
		return ProcessDump{p, NewDump(p, sampler.NewDictionary(), s, make([]gvl.ThreadState, threads))}
	}
	var b bytes.Buffer
	relatives := []sampler.Relative{{PID: 13, Parent: 11, Title: "sh", Why: "no Ruby (/bin/sh)"}}
	if err := WriteDumps(&b, []ProcessDump{one(11, 1), one(12, 2)}, relatives, 0); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	first, rest, ok := strings.Cut(text, "\n\n── worker  pid 12 ──\n")
	if !ok || !strings.HasPrefix(first, "── worker  pid 11 ──\n") || !strings.Contains(first, "worker, pid 11, 1 thread\n") ||
		!strings.Contains(rest, "worker, pid 12, 2 threads\n") || !strings.HasSuffix(rest, "\n\npid 13 (child of 11, sh): no Ruby (/bin/sh)\n") {
		t.Errorf("%q", text)
	}
}
