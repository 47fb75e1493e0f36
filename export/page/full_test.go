package page

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// busyIncident is an incident of a process with many different stacks, routes and waits.
func busyIncident(pid, threads, samples int) *Incident {
	d := sampler.NewDictionary()
	title := fmt.Sprintf("puma w%d", pid)
	p := sampler.Process{PID: pid, Title: title, Era: sampler.EraSched, LockRate: 100, StackRate: 100}
	n := NewIncident(p, d, nil)
	var frames []sampler.FrameID
	for i := range 800 {
		file := fmt.Sprintf("app/models/a_file_with_a_long_name_%d.rb", i/4)
		frames = append(frames, d.InternFrame(sampler.Frame{
			Label: fmt.Sprintf("Application::Module%d::Class#a_method_with_a_long_name_%d", i%97, i),
			Path:  file, AbsolutePath: "/srv/application/current/" + file, FirstLine: int32(i % 300), Origin: sampler.OriginApp,
		}))
	}
	s := &sampler.Sample{Depth: sampler.StackTick, Ractors: []sampler.Ractor{{ID: 1}}}
	for i := range threads {
		id := sampler.ThreadID(i + 1)
		name := fmt.Sprintf("puma srv tp %03d of a pool with a long name", i)
		d.SetThread(sampler.ThreadInfo{ID: id, Name: name, HasName: true, TID: int32(i + 100)})
		s.Threads = append(s.Threads, sampler.Thread{
			ID: id, Ractor: 1, Quality: sampler.StackFresh, Bits: sampler.BitQueued, Status: sampler.Runnable,
			Blocked: sampler.Blocked{FD: -1}, Kernel: sampler.Kernel{FD: -1},
		})
	}
	for tick := range samples {
		s.TimeNS = 1e9 + int64(tick)*1e7
		owner := tick % threads
		s.Ractors[0].OwnerStart, s.Ractors[0].OwnerEnd = sampler.ThreadID(owner+1), sampler.ThreadID(owner+1)
		s.Ractors[0].Queue = s.Ractors[0].Queue[:0]
		for i := range s.Threads {
			th := &s.Threads[i]
			th.Bits = sampler.BitQueued
			if i == owner {
				th.Bits = sampler.BitLinked
			} else {
				s.Ractors[0].Queue = append(s.Ractors[0].Queue, th.ID)
			}
			th.Stack = 0
			for depth := range 8 {
				th.Stack = d.InternStack(th.Stack, frames[(depth*331+(tick*7+i*13)*(depth+1))%len(frames)])
			}
			work := sampler.Work{
				Number: sampler.WorkNumber(tick/5 + 1), Kind: sampler.WorkRequest,
				Endpoint: fmt.Sprintf("Admin::OrdersController#action_%d", tick%60),
				SinceNS:  s.TimeNS - int64(tick%5)*1e7, BeforeNS: s.TimeNS - int64(tick%5)*1e7,
			}
			th.Serving = sampler.Serving{Work: d.InternWork(work)}
		}
		s.Ractors[0].Waiting = int32(len(s.Ractors[0].Queue))
		n.Feed(s)
	}
	return n
}

// TestFullPageIsWritten: a page of 64 processes stays below 3 MB. The page names the parts that were left out of each
// process. Every process keeps its threads, and a small process keeps everything.
func TestFullPageIsWritten(t *testing.T) {
	const small = 32
	var list []*Incident
	for i := range 64 {
		threads, samples := 20, 20
		if i == 5 {
			threads, samples = 400, 6
		}
		if i >= small {
			threads, samples = 2, 4
		}
		list = append(list, busyIncident(i, threads, samples))
	}
	var b bytes.Buffer
	if err := WriteIncidents(&b, list); err != nil {
		t.Fatal(err)
	}
	t.Logf("page of %d bytes", b.Len())
	if b.Len() > 3_000_000 {
		t.Errorf("a page of %d bytes", b.Len())
	}
	full := 0
	all := exporttest.PageList(t, b.Bytes())
	if len(all) != len(list) {
		t.Fatalf("%d processes, not %d", len(all), len(list))
	}
	for _, data := range all {
		pid, left := int(data["pid"].(float64)), fmt.Sprint(data["left"])
		if pid >= small && left != "[]" {
			t.Errorf("small process %d lacks %s", pid, left)
		}
		if left == "[]" {
			continue
		}
		full++
		for part, key := range map[int]string{
			partFigures: "stat", partDumps: "dumps", partWeights: "nodes", partLanes: "threads", partRoutes: "routes",
		} {
			said, has := strings.Contains(left, partNames[part]), fmt.Sprint(data[key]) != "[]" && data[key] != ""
			if said == has {
				t.Errorf("process %d has %s: %t, and says that it is left out: %t", pid, key, has, said)
			}
		}
		if len(data["threads"].([]any)) == 0 {
			t.Errorf("process %d has no threads, which fit: it lacks %s", pid, left)
		}
	}
	if full == 0 {
		t.Error("nothing is left out: the page is not full")
	}
}

// TestEveryPartCanGo: if the limit has no space for any part of the page, the data of a process is still written. The
// data names every part that was left out.
func TestEveryPartCanGo(t *testing.T) {
	n := busyIncident(7, 40, 60)
	n.Notes = []sampler.Note{{AtNS: 1e9, Text: strings.Repeat("a note ", 50)}}
	n.Finish()
	data, err := n.data(1)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > maxIncidentBytes/64 {
		t.Errorf("without any part, %d bytes are left", len(data))
	}
	for _, name := range partNames {
		if name == "" || !bytes.Contains(data, []byte(name)) {
			t.Errorf("that %q is left out is not said", name)
		}
	}
	if i := slices.Index(partNames[:], ""); i >= 0 {
		t.Errorf("part %d has no name", i)
	}
}

// TestPageSumsUpFindings: a page of several processes has a list of the findings of all of them. A page of one
// process has no such list.
func TestPageSumsUpFindings(t *testing.T) {
	var list []*Incident
	for pid := range 3 {
		n := busyIncident(100+pid, 2, 10)
		n.Finish()
		n.process.Title, n.stat.Findings = "puma", nil
		if pid > 0 {
			n.stat.Findings = []report.StatFinding{{ID: "deadlock", Severity: "crit", Title: "Deadlock"}}
		}
		list = append(list, n)
	}
	const line = `"shared":[{"severity":"crit","text":"Deadlock in 2 of 3 processes, as in pid `
	for _, some := range [][]*Incident{list[:1], list} {
		var b bytes.Buffer
		if err := WriteIncidents(&b, some); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.String(), line); got != min(len(some)-1, 1) {
			t.Errorf("a page of %d processes has %d lists", len(some), got)
		}
	}
}
