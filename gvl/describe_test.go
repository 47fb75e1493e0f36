package gvl

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

func TestDescribeAndJSON(t *testing.T) {
	dict := sampler.NewDictionary()
	dict.SetThread(sampler.ThreadInfo{ID: 3, Name: "worker-3", HasName: true})
	dict.SetThread(sampler.ThreadInfo{ID: 4, Main: true})
	pg := dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.5:5432", Local: "10.0.0.1", Service: "PostgreSQL"})
	pipe := dict.InternPeer(sampler.Peer{Kind: sampler.PeerPipe, Path: "pipe:[7]"})
	listener := dict.InternPeer(sampler.Peer{Kind: sampler.PeerListener, Local: "0.0.0.0:80"})
	tests := []struct {
		state State
		d     Detail
		words string
		json  string
	}{
		{Running, Detail{FD: -1}, "running", `{}`},
		{Stalled, Detail{FD: -1, Syscall: "clock_nanosleep"}, "stalled in clock_nanosleep, keeps the GVL", `{"syscall":"clock_nanosleep"}`},
		{Stalled, Detail{FD: -1, Syscall: sampler.SyscallEnded}, "stalled: its native thread has ended, and Ruby does not know, keeps the GVL for ever", `{"syscall":"(ended)"}`},
		{Stalled, Detail{FD: -1, Syscall: sampler.SyscallNone}, "stalled outside a system call (page fault?), keeps the GVL", `{"syscall":"(none)"}`},
		{Stalled, Detail{FD: -1, Syscall: sampler.SyscallFrozen}, "stalled: frozen by its cgroup, keeps the GVL", `{"syscall":"(frozen)"}`},
		{Unknown, Detail{FD: -1, Reason: reasonFrozen}, "frozen by its cgroup", `{"reason":"frozen by its cgroup"}`},
		{Stalled, Detail{FD: -1, Syscall: sampler.SyscallStopped}, "stalled: stopped by a signal or a debugger, keeps the GVL", `{"syscall":"(stopped)"}`},
		{Stalled, Detail{FD: 7, Syscall: "read", Peer: pipe}, "stalled in read pipe:[7] (fd 7), keeps the GVL",
			`{"fd":7,"peer":{"kind":"pipe","path":"pipe:[7]"},"syscall":"read"}`},
		{GC, Detail{FD: -1, GCMode: sampler.GCMarking}, "gc major, mark", `{"minor":false,"phase":"mark"}`},
		{GC, Detail{FD: -1, GCMinor: true, GCMode: sampler.GCCompacting}, "gc minor, compact", `{"minor":true,"phase":"compact"}`},
		{Waiting, Detail{FD: -1, After: IO}, "waiting 41 ms after io", `{"after":"io","kind":"queue"}`},
		{Waiting, Detail{FD: -1, Wait: WaitHandover}, "waiting 41 ms (next)", `{"kind":"handover"}`},
		{Waiting, Detail{FD: -1, Wait: WaitCPUSlot, Inferred: true}, "waiting 41 ms for a CPU slot", `{"inferred":true,"kind":"cpu_slot"}`},
		{Native, Detail{FD: -1}, "native", `{}`},
		{IO, Detail{FD: 14, Op: OpRead, Peer: pg, Syscall: "recvfrom"}, "io ← read 10.0.0.5:5432 PostgreSQL (fd 14)",
			`{"fd":14,"op":"read","peer":{"kind":"tcp","local":"10.0.0.1","remote":"10.0.0.5:5432","service":"PostgreSQL"},"syscall":"recvfrom"}`},
		{IO, Detail{FD: 1, Op: OpWrite}, "io → write (fd 1)", `{"fd":1,"op":"write"}`},
		{IO, Detail{FD: 4, Op: OpAccept, Peer: listener}, "io ← accept 0.0.0.0:80 (fd 4)",
			`{"fd":4,"op":"accept","peer":{"kind":"listener","local":"0.0.0.0:80"}}`},
		{IO, Detail{FD: 4, FDs: 3, Op: OpSelect}, "io ← select 3 descriptors", `{"fd":4,"fds":3,"op":"select"}`},
		{IO, Detail{FD: -1, Op: OpChild, Child: 77}, "io ← child pid 77", `{"child":77,"op":"child"}`},
		{IO, Detail{FD: -1, Op: OpChild, Child: -1}, "io ← child (any)", `{"child":-1,"op":"child"}`},
		{IO, Detail{FD: 5, Op: OpFile, Syscall: "fsync"}, "io ← file fsync (fd 5)", `{"fd":5,"op":"file","syscall":"fsync"}`},
		{Lock, Detail{FD: -1, Kind: "Mutex", Object: 0xa8, Holder: 3}, "lock Mutex held by worker-3",
			`{"holder":3,"kind":"Mutex","object":"0xa8"}`},
		{Lock, Detail{FD: -1}, "lock Mutex", `{}`},
		{Parked, Detail{FD: -1, Kind: "Thread", Joined: 4}, "parked in Thread#join of main", `{"joined":4,"kind":"Thread"}`},
		{Parked, Detail{FD: -1, Kind: "Thread"}, "parked in Thread#join", `{"kind":"Thread"}`},
		{Parked, Detail{FD: -1, Kind: "Queue", Object: 1, DeadlineNS: 9}, "parked in Queue 41 ms",
			`{"deadline_monotonic_ns":9,"kind":"Queue","object":"0x1"}`},
		{Parked, Detail{FD: -1}, "parked 41 ms", `{}`},
		{Sleeping, Detail{FD: -1}, "sleeping 41 ms", `{}`},
		{Unknown, Detail{FD: -1, Reason: reasonFutex, Syscall: "futex"}, "unknown: futex in a blocking region",
			`{"reason":"futex in a blocking region","syscall":"futex"}`},
		{Unknown, Detail{FD: -1}, "unknown", `{}`},
	}
	for _, tt := range tests {
		ts := ThreadState{State: tt.state, Detail: tt.d, SinceNS: 100, AtNS: 100 + 41*gvltest.MS, StillNS: 40 * gvltest.MS}
		if got := Describe(ts, dict); got != tt.words {
			t.Errorf("%q, want %q", got, tt.words)
		}
		b, err := json.Marshal(tt.d.JSON(tt.state, dict))
		if err != nil || string(b) != tt.json {
			t.Errorf("%s: %s (%v), want %s", tt.words, b, err, tt.json)
		}
		Describe(ts, nil)
		tt.d.JSON(tt.state, nil)
	}
}

// TestStateWords: each state has a word, a letter and a glyph that no other state has. It also has a row in
// docs/reference/states.md and cells in the README.
func TestStateWords(t *testing.T) {
	doc, err := os.ReadFile("../docs/reference/states.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	letters, glyphs := map[byte]bool{0: true}, map[rune]bool{0: true}
	for s := range NumStates {
		if row := fmt.Sprintf("| `%s` | `%c` |", s, s.Glyph()); s.String() == "" || !strings.Contains(string(doc), row) {
			t.Errorf("docs/reference/states.md has no row %q", row)
		}
		if cells := fmt.Sprintf("| `%c` %s |", s.Glyph(), s); !strings.Contains(string(readme), cells) {
			t.Errorf("README.md does not have %q in its table of states", cells)
		}
		if got, ok := ParseState(s.String()); !ok || got != s {
			t.Errorf("%d: %q is parsed as %d", s, s.String(), got)
		}
		letters[s.Letter()], glyphs[s.Glyph()] = true, true
		for what, list := range map[string][NumStates]State{"ByUrgency": ByUrgency, "InBars": InBars, "OnPages": OnPages} {
			if !slices.Contains(list[:], s) {
				t.Errorf("%s lacks %q", what, s)
			}
		}
		if s.Short() == "" || s.Datadog() == "" || s.Meaning() == "" {
			t.Errorf("the row of %q has a gap", s)
		}
	}
	if len(letters) != int(NumStates)+1 || len(glyphs) != int(NumStates)+1 {
		t.Error("two states look the same")
	}
	if _, ok := ParseState("RUN"); ok {
		t.Error("a word that is none")
	}
	if s := State(200); s.String() != "unknown" || s.Letter() != '?' || s.Glyph() != '?' || s.Released() {
		t.Error("a state that is none")
	}
	kinds := map[string]bool{}
	for k := range NumWaitKinds {
		kinds[k.String()] = true
	}
	if !kinds["queue"] || !kinds["handover"] || !kinds["yield"] || !kinds["cpu_slot"] {
		t.Errorf("%v", kinds)
	}
}
