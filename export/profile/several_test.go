package profile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/exporttest"
)

// twoShops has the measurement of the invented shop twice, with two PIDs. ddtop attached to the second shop half a
// second later.
func twoShops() []Measured {
	first, second := measured(exporttest.NewShop()), measured(exporttest.NewShop())
	first.Process.PID, second.Process.PID = 11, 12
	second.Process.AttachedAt = second.Process.AttachedAt.Add(500 * time.Millisecond)
	return []Measured{first, second}
}

func TestProfilesOfSeveralProcesses(t *testing.T) {
	list := twoShops()
	one, err := Profile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	all, err := Profiles(list)
	if err != nil {
		t.Fatal(err)
	}
	if err := all.CheckValid(); err != nil {
		t.Error(err)
	}
	sums := make(map[string]int64)
	for _, s := range all.Sample {
		if len(s.Label[labelPID]) != 1 {
			t.Fatalf("labels %v", s.Label)
		}
		sums[s.Label[labelPID][0]] += s.Value[0]
	}
	var want int64
	for _, s := range one.Sample {
		want += s.Value[0]
	}
	if len(sums) != 2 || sums["11"] != want || sums["12"] != want || want == 0 {
		t.Errorf("wall time %v, want %d each", sums, want)
	}
	if all.TimeNanos != one.TimeNanos || all.DurationNanos != one.DurationNanos+int64(500*time.Millisecond) {
		t.Errorf("from %d for %d ns; one: from %d for %d ns", all.TimeNanos, all.DurationNanos, one.TimeNanos, one.DurationNanos)
	}
	if len(all.SampleType) > len(one.SampleType) {
		t.Errorf("%d sample types, one has %d", len(all.SampleType), len(one.SampleType))
	}
}

func TestCollapsedAndSpeedscopeOfSeveralProcesses(t *testing.T) {
	list := twoShops()
	var one, all bytes.Buffer
	if err := WriteCollapsed(&one, list[0], 0); err != nil {
		t.Fatal(err)
	}
	if err := WriteCollapsedOf(&all, list, 0); err != nil {
		t.Fatal(err)
	}
	title := export.ProgramName(list[0].Process)
	var want strings.Builder
	for _, pid := range []int{11, 12} {
		for line := range strings.Lines(one.String()) {
			fmt.Fprintf(&want, "%s [%d];%s", title, pid, line)
		}
	}
	if all.String() != want.String() || one.Len() == 0 {
		t.Errorf("collapsed:\n%s\nwant\n%s", all.String(), want.String())
	}

	all.Reset()
	if err := WriteSpeedscopeOf(&all, list, 0); err != nil {
		t.Fatal(err)
	}
	var f speedscopeFile
	if err := json.Unmarshal(all.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	half := len(f.Profiles) / 2
	for i, p := range f.Profiles {
		pid := 11 + i/max(half, 1)
		if !strings.HasPrefix(p.Name, fmt.Sprintf("%s [%d] ", title, pid)) || p.EndValue != f.Profiles[i%max(half, 1)].EndValue {
			t.Errorf("profile %d is %q with %d", i, p.Name, p.EndValue)
		}
	}
	if half == 0 || len(f.Profiles) != 2*half {
		t.Errorf("%d profiles", len(f.Profiles))
	}
}

// TestFlamegraphOfSeveralProcesses: the outermost frames of the flamegraph must be the processes. Each must have the
// time of its process.
func TestFlamegraphOfSeveralProcesses(t *testing.T) {
	list := twoShops()
	list[1].Process.Part = "w1"
	var all bytes.Buffer
	if err := WriteFlamegraphOf(&all, list, flamegraph.Wall); err != nil {
		t.Fatal(err)
	}
	name := list[0].Process.Title
	for _, want := range []string{name + ", 2 processes · ", name + " [11]", name + " w1 [12]"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if n := strings.Count(all.String(), ", 50.0 % of all"); n < 2 {
		t.Errorf("%d frames have half of the time, want those of both processes", n)
	}
}

// TestCallgrindOfSeveralProcesses: each process has its own part of the file. A name is written in full only once per
// file, and by its number after that.
func TestCallgrindOfSeveralProcesses(t *testing.T) {
	var one, all bytes.Buffer
	list := twoShops()
	if err := WriteCallgrind(&one, list[0], 0); err != nil {
		t.Fatal(err)
	}
	if err := WriteCallgrindOf(&all, list, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pid: 11\n", "part: 1\n", "pid: 12\n", "part: 2\n"} {
		if strings.Count(all.String(), want) != 1 {
			t.Errorf("not one %q", want)
		}
	}
	for _, of := range []string{"summary: ", "fn=", "calls="} {
		if n, want := strings.Count(all.String(), of), 2*strings.Count(one.String(), of); n != want || n == 0 {
			t.Errorf("%d lines with %s, want %d", n, of, want)
		}
	}
	if n := strings.Count(all.String(), "=(1) "); n != 2 { // one name of a file and one name of a function
		t.Errorf("the first names are written %d times", n)
	}
	if strings.Contains(one.String(), "part: ") {
		t.Error("a file of one process has parts")
	}
}
