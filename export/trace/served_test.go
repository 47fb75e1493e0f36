package trace

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestRequestsAreTracks: the Chrome trace has a track of requests for each thread that served a request. The Firefox
// profile has a marker for each request. A request has one slice, with its latest known name.
func TestRequestsAreTracks(t *testing.T) {
	dict := sampler.NewDictionary()
	work := func(n sampler.WorkNumber, name string) sampler.Serving {
		return sampler.Serving{Work: dict.InternWork(sampler.Work{Number: n, Kind: sampler.WorkRequest, Endpoint: name})}
	}
	dict.SetThread(sampler.ThreadInfo{ID: 1, Name: "puma srv tp 001", HasName: true, Ractor: 1, TID: 11})
	dict.SetThread(sampler.ThreadInfo{ID: 2, Name: "reactor", HasName: true, Ractor: 1, TID: 12})
	tr := New(sampler.Process{PID: 7}, dict)
	for i, s := range []sampler.Serving{work(1, "GET /orders"), work(1, "GET orders#index"), {}, work(2, "GET orders#index"), work(3, "")} {
		at := int64(1e9 + i*10e6)
		tr.Interval(&gvl.Interval{Thread: 1, FromNS: at, ToNS: at + 10e6, State: gvl.Running, Serving: s})
		tr.Interval(&gvl.Interval{Thread: 2, Slot: 1, FromNS: at, ToNS: at + 10e6, State: gvl.IO})
	}
	tr.firstNS, tr.lastNS = 1e9, 2e9
	type slice struct {
		name    string
		at, dur float64
	}
	want := map[slice]bool{{"GET orders#index", 0, 20}: true, {"GET orders#index", 30, 10}: true, {"(route not known)", 40, 10}: true}
	var out bytes.Buffer
	if err := WriteChrome(&out, []*Trace{tr}); err != nil {
		t.Fatal(err)
	}
	var chrome struct {
		TraceEvents []struct {
			Name, Cat string
			TID       int
			TS, Dur   float64
			Args      map[string]any
		}
	}
	if err := json.Unmarshal(out.Bytes(), &chrome); err != nil {
		t.Fatal(err)
	}
	tracks, found := map[int]string{}, map[slice]bool{}
	for _, e := range chrome.TraceEvents {
		if e.Name == "thread_name" {
			tracks[e.TID], _ = e.Args["name"].(string)
		}
		if e.Cat == "request" {
			found[slice{e.Name, e.TS / 1e3, e.Dur / 1e3}] = true
			if tracks[e.TID] != "puma srv tp 001 requests" {
				t.Errorf("%+v is on the track %q", e, tracks[e.TID])
			}
		}
	}
	if len(found) != len(want) || len(tracks) != 3 {
		t.Errorf("Perfetto has %v on the tracks %v", found, tracks)
	}
	for s := range want {
		if !found[s] {
			t.Errorf("Perfetto lacks %v: %v", s, found)
		}
	}
	out.Reset()
	if err := WriteFirefox(&out, []*Trace{tr}); err != nil {
		t.Fatal(err)
	}
	var firefox struct {
		Threads []struct {
			StringArray []string
			Markers     struct {
				Data               []struct{ Type, What string }
				StartTime, EndTime []any
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &firefox); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, th := range firefox.Threads {
		for i, d := range th.Markers.Data {
			if d.Type == "Request" {
				from, to := th.Markers.StartTime[i].(float64), th.Markers.EndTime[i].(float64)
				if n++; !want[slice{d.What, from, to - from}] {
					t.Errorf("Firefox has %v from %v to %v", d, from, to)
				}
			}
		}
	}
	if n != len(want) {
		t.Errorf("Firefox has %d requests", n)
	}
}
