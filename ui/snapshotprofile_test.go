package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestSnapshotProfile: the profile in a snapshot has, for each thread and state, the same time as `ddtop stat` shows,
// to the nanosecond. Its labels for collections and requests are the same as in a profile that `ddtop record` writes.
func TestSnapshotProfile(t *testing.T) {
	d := demosource.Options{Length: 20 * time.Second}
	o := scene.Options{Folder: t.TempDir(), Window: 30 * time.Second}.WithDefaults()
	store, err := newStore(demosource.New(d), o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, o)
	if err != nil {
		t.Fatal(err)
	}
	measure := measure.New(store.Process(), store.Dict, nil)
	work := store.Dict.InternWork(sampler.Work{Number: 7, Kind: sampler.WorkRequest, Endpoint: "GET orders#index", SinceNS: 1})
	for _, x := range record(t, d) {
		if x.GC.During {
			x.GC.Reason = sampler.GCByNewObject
		}
		for i := range x.Threads {
			if x.Threads[i].ID == 2 {
				x.Threads[i].Serving = sampler.Serving{Work: work, Span: 12, RootSpan: 11}
			}
		}
		measure.Feed(x)
		store.Feed(x)
	}
	s := &screen{t, m, store}
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	msg := s.press("s")[0]().(savedMsg)
	if msg.err != nil {
		t.Fatal(msg.err)
	}
	file, err := os.Open(filepath.Join(msg.path, "profile.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p, err := profile.Parse(file)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[string]int)
	for i, v := range p.SampleType {
		at[v.Type] = i
	}
	for _, name := range []string{"wall-time", "cpu-time", "gvl-wait", "samples", "blame", "cpu-samples", "timeline"} {
		if _, ok := at[name]; !ok {
			t.Errorf("it has no %s", name)
		}
	}
	got := make(map[string]int64)
	var timeline, spans int64
	for _, x := range p.Sample {
		state := x.Label["ddtop state"][0]
		_, id, _ := strings.Cut(strings.TrimSuffix(x.Label["thread id"][0], ")"), "(")
		got[id+" "+state] += x.Value[at["wall-time"]]
		timeline += x.Value[at["timeline"]]
		if state == "gc" && x.Value[at["wall-time"]] > 0 {
			outermost := x.Location[len(x.Location)-1].Line[0].Function.Name
			if outermost != "Garbage Collection" || fmt.Sprint(x.Label["event"], x.Label["gc type"], x.Label["gc cause"]) != "[gc] [minor] [object allocation]" {
				t.Errorf("a collection under %s has the labels %v", outermost, x.Label)
			}
		}
		if len(x.NumLabel["span id"]) > 0 {
			spans += x.Value[at["wall-time"]]
			if x.NumLabel["span id"][0] != 12 || x.NumLabel["local root span id"][0] != 11 || x.Label["trace endpoint"][0] != "GET orders#index" || id != "2" {
				t.Errorf("thread %s works for %v, %v", id, x.Label, x.NumLabel)
			}
		}
	}
	var gc int64
	for _, th := range measure.Stat(0).Threads {
		gc += th.NS.GC
		for state, ns := range map[string]int64{
			"running": th.NS.Running, "stalled": th.NS.Stalled, "gc": th.NS.GC, "waiting": th.NS.Waiting, "native": th.NS.Native, "io": th.NS.IO,
			"lock": th.NS.Lock, "parked": th.NS.Parked, "sleeping": th.NS.Sleeping,
		} {
			if key := fmt.Sprintf("%d %s", th.ID, state); got[key] != ns {
				t.Errorf("thread %s: %d ns, stat has %d", key, got[key], ns)
			}
		}
	}
	if timeline != gc || gc == 0 || spans == 0 {
		t.Errorf("the timeline has %d ns of collections, stat %d; %d ns have a span", timeline, gc, spans)
	}
}
