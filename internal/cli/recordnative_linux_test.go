package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// recordedStay is a line of JSON about a thread, or about a stay of a thread. A stay is the time in which a thread is
// blocked in the same C functions.
type recordedStay struct {
	Type      string                   `json:"type"`
	ID        int                      `json:"id"`
	TID       int32                    `json:"tid"`
	Thread    int                      `json:"thread"`
	From      int64                    `json:"begin_ns"`
	To        int64                    `json:"end_ns"`
	Functions []report.DumpNativeFrame `json:"functions"`
}

// TestRecordingHasNativeFrames: a recording made with the default flags has the C functions in which blocked threads
// wait. Each file that is made from the recording has them too. The tool eu-stack must find the same functions. In a
// profile they are below the Ruby frame.
func TestRecordingHasNativeFrames(t *testing.T) {
	rubytest.Long(t)
	eu := rubytest.Program(t, "eu-stack", "elfutils")
	p := rubytest.One(t).Start(t, blockedScript, rubytest.Options{})
	p.Expect(t, "ready")
	file := filepath.Join(t.TempDir(), "a.ddtop")
	report := func(ext string, more ...string) string {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out"+ext)
		r := run(t, append([]string{"report", file, "-o", out}, more...)...)
		r.want(t, 0)
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	stays := make(map[int32]recordedStay) // by TID
	var ns int64
	for until := time.Now().Add(rubytest.Timeout); len(stays) < 2; {
		if time.Now().After(until) {
			t.Fatalf("stays: %+v", stays)
		}
		clear(stays)
		r := run(t, "record", "-p", strconv.Itoa(p.PID), "-d", "4s", "-o", file)
		r.want(t, 0)
		tids := make(map[int]int32)
		ns = 0
		for lines := bufio.NewScanner(strings.NewReader(report(".jsonl"))); lines.Scan(); {
			var line recordedStay
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			switch {
			case line.Type == "thread":
				tids[line.ID] = line.TID
			case line.Type == "native" && int(tids[line.Thread]) != p.PID: // a thread that reads, not the main thread
				stays[tids[line.Thread]] = line
				ns += line.To - line.From
			}
		}
	}
	text, err := exec.Command(eu, "-n", "0", "-p", strconv.Itoa(p.PID)).Output()
	if err != nil {
		t.Fatal(err)
	}
	truth := make(map[int32][]uint64)
	var tid int32
	for line := range strings.Lines(string(text)) {
		var n int
		var pc uint64
		if _, err := fmt.Sscanf(line, "TID %d:", &tid); err != nil {
			if _, err := fmt.Sscanf(line, "#%d 0x%x", &n, &pc); err == nil {
				truth[tid] = append(truth[tid], pc)
			}
		}
	}
	bases := mappedAt(t, p.PID)
	var named []string
	for tid, stay := range stays {
		var got []uint64
		named = named[:0]
		for _, f := range stay.Functions {
			if got = append(got, bases[f.Path]+f.Offset); f.BuildID == nil || f.Function == nil {
				t.Errorf("%+v", f)
			}
			if f.Name != nil {
				named = append(named, *f.Name)
			}
		}
		if n := len(got); n == 0 || n > len(truth[tid]) || !slices.Equal(got, truth[tid][:n]) {
			t.Errorf("thread %d: %#x\neu-stack has %#x", tid, got, truth[tid])
		}
	}
	checkProfile(t, report(".pb.gz"), stays, ns)
	for ext, more := range map[string][]string{".txt": {"--format", "collapsed"}, ".html": nil, ".svg": nil,
		".json": {"--format", "speedscope"}} {
		whole := report(ext, more...)
		for _, name := range named {
			if !strings.Contains(whole, name) {
				t.Errorf("%s %q has no %s", ext, more, name)
			}
		}
	}
}

// checkProfile checks a profile of threads that wait in IO#sysread. stays has the known times in which the threads were
// blocked in C functions, and ns is their sum.
func checkProfile(t *testing.T, data string, stays map[int32]recordedStay, ns int64) {
	t.Helper()
	prof, err := profile.ParseData([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	var ruby, native int64
	for _, s := range prof.Sample {
		at := slices.IndexFunc(s.Location, func(l *profile.Location) bool { return l.Line[0].Function.Name == "IO#sysread" })
		if at < 0 {
			continue
		}
		ruby += s.Value[0]
		if at == 0 {
			continue
		}
		native += s.Value[0]
		tid, _, _ := strings.Cut(s.Label["thread id"][0], " ")
		id, err := strconv.Atoi(tid)
		if err != nil {
			t.Fatal(err)
		}
		next := 0
		functions := stays[int32(id)].Functions
		for _, l := range s.Location[:at] {
			f := functions[next]
			if l.Mapping.File != f.Path || l.Mapping.BuildID != *f.BuildID || l.Address+1 != f.Offset {
				t.Errorf("%+v in %+v is not %+v", l, l.Mapping, f)
			}
			if next++; f.Name == nil {
				for next < len(functions) && functions[next].Name == nil && functions[next].Path == f.Path {
					next++
				}
				if want := fmt.Sprintf("%s (%d function", f.Library, strings.Count(l.Line[0].Function.SystemName, "+0x")); !strings.HasPrefix(l.Line[0].Function.Name, want) {
					t.Errorf("%+v, want %s", l.Line[0].Function, want)
				}
			} else if l.Line[0].Function.Name != *f.Name {
				t.Errorf("%+v is not %s", l.Line[0].Function, *f.Name)
			}
		}
		if next != len(functions) {
			t.Errorf("%d functions of %d", next, len(functions))
		}
	}
	// A stay is the time in which a thread is blocked in the same C functions. The profile counts only the time between
	// two samples inside a stay. At the begin and the end of a stay, no sample proves the functions. So the profile may
	// have less time than the stays.
	if native > ns || native == 0 || native > ruby {
		t.Errorf("%d ns in C functions, whose stays take %d; IO#sysread has %d", native, ns, ruby)
	}
}

// mappedAt returns the addresses at which a process has mapped files, by path.
func mappedAt(t *testing.T, pid int) map[string]uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]uint64)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		if _, ok := out[fields[5]]; ok {
			continue
		}
		from, _, _ := strings.Cut(fields[0], "-")
		if out[fields[5]], err = strconv.ParseUint(from, 16, 64); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
