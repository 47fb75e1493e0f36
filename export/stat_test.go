package export

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/golden"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

func ptr[T any](v T) *T { return &v }

// TestStatHasEveryState: each state of a thread must have exactly one column in stat's table, and the state's time must
// be part of the sum.
func TestStatHasEveryState(t *testing.T) {
	for s := range gvl.NumStates {
		var ns [gvl.NumStates]int64
		ns[s] = 1
		row := report.StatThread{NS: report.StatesOf(ns)}
		if row.NS.Sum() != 1 {
			t.Errorf("%q does not count as listed", s)
		}
		if after := afterText(&row.NS, 1); !strings.HasSuffix(after, " 100 %") && s != gvl.Waiting {
			t.Errorf("%q is no state before a wait: %q", s, after)
		}
		shown := 0
		for _, c := range statColumns()[:gvl.NumStates] {
			if c.text(&row) != "·" {
				shown++
			}
		}
		if shown != 1 {
			t.Errorf("%q is in %d columns", s, shown)
		}
	}
}

func demoStat() report.Stat {
	thread := func(id int, name string, ns report.StatStates) report.StatThread {
		t := report.StatThread{ID: sampler.ThreadID(id), TID: ptr(int32(4000 + id)), Ractor: 1, NS: ns, CPUNS: &ns.Running}
		if name != "" {
			t.Name = &name
		}
		return t
	}
	main := thread(1, "", report.StatStates{Parked: 10e9})
	main.Main = true
	worker := thread(2, "worker-3", report.StatStates{Running: 9_100e6, GC: 300e6, Waiting: 600e6})
	worker.Waits = report.StatWaits{Count: 12, P50NS: 41e6, P99NS: 100e6, MaxNS: 101e6, ResolutionNS: 1e6}
	http := thread(3, "http-1 日本", report.StatStates{Running: 20e6, Waiting: 7_980e6, IO: 1_999e6, Unknown: 1e6})
	http.Waits = report.StatWaits{Count: 88, P50NS: 90e6, P99NS: 212e6, MaxNS: 2_300e6, ResolutionNS: 1e6, AtLeast: true,
		Bounds: report.StatBounds{P50: gvl.AtMost, P90: gvl.AtMost, P99: gvl.AtLeast, Max: gvl.AtLeast}}
	gone := thread(4, strings.Repeat("a very long name ", 5), report.StatStates{Sleeping: 3e9})
	gone.Gone, gone.TID = true, nil
	return report.Stat{
		PID: 4242, StartNS: 5, EndNS: 10e9 + 5, DurationNS: 10e9, Samples: 10_010, Torn: 3, Retried: 2,
		Rate: report.StatRates{Stack: report.StatRate{Asked: 100, Achieved: 99.8}, Lock: report.StatRate{Asked: 1000, Achieved: 998.9}},
		GVL: []report.StatGVL{{Ractor: 1, HeldShare: 0.9421, WaitingMean: 0.858, Waits: report.StatWaits{
			Count: 100, P50NS: 88e6, P90NS: 140e6, P99NS: 210e6, MaxNS: 2_300e6, ResolutionNS: 1e6, AtLeast: true, Bounds: report.StatBounds{P99: gvl.AtLeast, Max: gvl.AtLeast},
			QueueNS: 8_000e6, HandoverNS: 500e6, YieldNS: 80e6, RunDelayNS: 429e6,
			AfterNS: report.StatStates{IO: 7_980e6, Running: 600e6},
		}}},
		Threads: []report.StatThread{main, http, worker, gone},
		GC:      report.StatGC{Valid: true, Count: 43, Minor: 41, Major: 2, NS: 300e6, Allocated: 123_456},
		Process: report.StatProcess{CPUNS: 9_400e6, SpanNS: 10e9, ThrottledNS: 20e6, RSSBytes: 512_000_000},
		Self:    report.StatSelf{CPUNS: ptr(int64(310e6)), SpanNS: 10e9, MaxRSSBytes: 31_000_000},
		Findings: []report.StatFinding{
			{ID: "gvl_hog", Severity: "warn", Title: "Thread hogs the GVL", Text: "Reports#build (worker-3) causes 83 % of all waiting",
				Next: "move this work to another process", SinceNS: 3e9, Threads: []sampler.ThreadID{2}},
			{ID: "db_slow", Evidence: report.StatEvidence{Native: ptr("PQget\x1bResult → poll")}, Severity: "warn", Title: "Database slow", Text: "\x1b[2Jtext", Next: "look", SinceNS: 1e9 + 5, UntilNS: ptr(int64(4e9 + 5)),
				AgoNS: ptr(int64(6e9))},
		},
		Blame: report.StatBlame{
			TotalNS: 8_580e6, NobodyNS: 500e6, RunningNS: 8_000e6, GCNS: 80e6,
			Frames: []report.StatPlace{
				{StatCode: report.StatCode{Label: "JSON.generate", Path: "app/reports.rb", Line: 12, Caller: "Reports#build"}, Thread: 2, NS: 7_000e6, Share: .816},
				{StatCode: report.StatCode{Label: "Server#handle", Path: "app/server.rb", Line: 9}, Thread: 3, NS: 80e6, Share: .0093},
			},
		},
		LongestWaits: []report.StatWait{
			{Thread: 3, NS: 2_300e6, Bound: gvl.AtLeast, InProgress: true, Before: &report.StatBefore{State: "io", Words: "io ← read 10.0.0.5:5432 PostgreSQL (fd 14)", NS: 100e6}},
			{Thread: 2, NS: 101e6, Before: &report.StatBefore{State: "sleeping", Words: "sleeping 50 ms", NS: 50e6}},
			{Thread: 9, NS: 1e6, Method: "Report#build → JSON.gen\x1berate"},
		},
		Requests: demoRequests(),
		NativeWaits: []report.StatNativeWait{
			{Place: ptr("PG::Connection#sync_exec [C]"), Chain: "PQgetResult → poll", NS: 9_300e6, Stays: 3, Threads: 2},
			{Chain: "li\x1bb (2 functions)", NS: 1_000e6, Stays: 1, Threads: 1},
		},
		NativeReads: &report.StatNativeReads{Read: 4, Cut: 1, Moved: 2},
		NativeThreads: []report.StatNative{{TID: 4100, Name: "grpc_global", CPUNS: 1_200e6, Taken: 60,
			Ran: []report.StatAlone{{Chain: "start_thread → inflate", Taken: 45}}}, {TID: 4001, Name: "ruby-timer\n"}},
	}
}

func demoRequests() report.StatRequests {
	db := []report.StatPeerTime{{Peer: map[string]any{"kind": "tcp"}, Name: "10.0.0.5:5432 PostgreSQL", NS: 1_900e6}}
	return report.StatRequests{
		Fibers: &report.StatFibers{Waiting: 60, Requests: 1, AgeNS: 4_100e6, LookNS: 30e6, Cut: true},
		Endpoints: []report.StatEndpoint{
			{Kind: "request", Endpoint: ptr("GET reports#build"), Ended: 3, Running: 1, PerSecond: .3, Measured: 2, P50NS: 2_400e6, P95NS: 3_100e6,
				P99NS: 3_100e6, MaxNS: 3_100e6, LongestNS: 4_100e6, LongestAtLeast: true, NS: report.StatStates{Running: 8_000e6, GC: 1_500e6}, BlameNS: 6_000e6,
				BlameShare: .7},
			{Kind: "request", Endpoint: ptr("GET orders#index"), Ended: 402, Running: 2, PerSecond: 40.2, Measured: 402, P50NS: 18e6, P95NS: 41e6,
				P99NS: 88e6, MaxNS: 190e6, LongestNS: 190e6, NS: report.StatStates{Running: 100e6, Waiting: 1_800e6, IO: 2_000e6}, Peers: db, BlameNS: 300e6,
				BlameShare: .04},
			{Kind: "job", Endpoint: ptr("Ma\x1b[2Jil" + strings.Repeat("er", 40)), Running: 1, LongestNS: 9e9, LongestAtLeast: true, NS: report.StatStates{Sleeping: 9e9}},
			{Kind: "request", NS: report.StatStates{Running: 1e6}, Ended: 1, LongestNS: 1e6, LongestAtLeast: true},
			{Kind: "request", Endpoint: ptr("GET feed#show"), Running: 1, LongestNS: 8e9, LongestAtLeast: true, NS: report.StatStates{Running: 50e6}, FiberNS: 8e9},
			{Kind: "none", Other: true, NS: report.StatStates{Unknown: 1e6}},
		},
		Running: []report.StatRequest{
			{Thread: 3, State: "io", Words: "io ← read 10.0.0.5:5432 PostgreSQL (fd 14)", StatServing: report.StatServing{Kind: "request", Number: 7,
				Endpoint: ptr("GET orders#index"), AgeNS: 1_840e6, Statement: ptr("SELECT * FROM orders WHERE id = ?"), Exception: ptr("Timeout::Error"),
				Values: ptr("/orders?page=2"), Span: ptr("18446744073709551615")}},
			{Thread: 2, Suspended: true, StatServing: report.StatServing{Kind: "job", Number: 8, AgeNS: 9e9, AtLeast: true}},
			{Thread: 2, Suspended: true, Waits: true, FiberNS: 8e9, StatServing: report.StatServing{Kind: "request", Number: 9, Endpoint: ptr("GET feed#show"),
				AgeNS: 8e9, Statement: ptr("GET api.example.com")}},
		},
	}
}

func TestStatGolden(t *testing.T) {
	var b bytes.Buffer
	if err := WriteStat(&b, demoStat(), sampler.Note{AtNS: 3e9 + 5, Text: "deploy \x1b[2Jrolled back"}); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "stat.txt", b.Bytes())
	width := 0
	// The columns are aligned, so a line of the table is as wide as the heading.
	for _, l := range strings.Split(b.String(), "\n") {
		if strings.HasPrefix(l, "thread") {
			width = ansi.StringWidth(l)
		} else if l == "" {
			if width > 0 {
				return
			}
		} else if width > 0 && ansi.StringWidth(l) != width {
			t.Errorf("%d columns, the head has %d: %q", ansi.StringWidth(l), width, l)
		}
	}
	t.Error("no table")
}

func TestStatEmpty(t *testing.T) {
	var b bytes.Buffer
	if err := WriteStat(&b, report.Stat{}); err != nil || strings.Contains(b.String(), "NaN") {
		t.Errorf("%v %s", err, b.String())
	}
}

func TestStatJSONContract(t *testing.T) {
	var b bytes.Buffer
	if err := WriteStatJSON(&b, demoStat()); err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	keys := "pid start_monotonic_ns end_monotonic_ns duration_ns rate.stack.asked rate.stack.achieved rate.lock.asked rate.lock.achieved " +
		"samples torn partial failed gvl.0.ractor gvl.0.held_share gvl.0.waiting_mean threads.0.id threads.0.tid threads.0.name " +
		"threads.0.cpu_ns threads.0.waits.count threads.0.waits.p50_ns threads.0.waits.p99_ns threads.0.waits.max_ns " +
		"threads.0.waits.resolution_ns gc.count gc.minor gc.major gc.ns self.cpu_ns self.max_rss_bytes"
	for _, s := range []string{"running", "stalled", "gc", "waiting", "native", "io", "lock", "parked", "sleeping", "unknown"} {
		keys += " threads.0.ns." + s
	}
	for _, path := range strings.Fields(keys) {
		if _, ok := lookup(v, path); !ok {
			t.Errorf("%s is missing", path)
		}
	}
}

// TestShortWindowsSayTooShort: a share of a CPU needs two readings of the CPU time. Without two readings, stat must say
// that the time was too short, and must not print 0 %. The kernel counts CPU time in units of 10 ms, so a share in a
// short measurement has a margin of error.
func TestShortWindowsSayTooShort(t *testing.T) {
	s := demoStat()
	s.Self.CPUNS, s.Self.SpanNS = nil, 0
	s.Process.CPUNS, s.Process.SpanNS = 0, 0
	var b bytes.Buffer
	if err := WriteStat(&b, s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CPU  too short to tell", "ddtop itself: CPU: too short to tell, 31.0 MB memory"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	s.Process.CPUNS, s.Process.SpanNS = 120e6, 250e6
	if got := CPUText(&s.Process); got != "48 % ± 8 %" {
		t.Errorf("30 ticks in a quarter of a second are %q", got)
	}
	b.Reset()
	if err := WriteStatJSON(&b, s); err != nil || !strings.Contains(b.String(), `"cpu_ns": null`) {
		t.Errorf("%v: no null in %s", err, b.String())
	}
}

// TestStatWithoutRequests: if a program has no requests, stat does not mention requests.
func TestStatWithoutRequests(t *testing.T) {
	s := demoStat()
	s.Requests = report.StatRequests{}
	var b bytes.Buffer
	if err := WriteStat(&b, s); err != nil || strings.Contains(b.String(), "requests") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
