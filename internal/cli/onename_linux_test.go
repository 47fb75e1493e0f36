package cli_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// A shownRequest is a request in a recording. ddtop learns the request's route only in its last 300 ms. Before this, it
// shows only the path. If route is empty, ddtop never learns the route. noPath is true for a recording that does not
// have patterns of paths.
type shownRequest struct {
	path, route string
	noPath      bool
	// of is the pattern of the request's path. The test sets it if the field path already contains the route.
	of string
}

// lateNames makes a recording of a thread that serves one request per second. The name of a request changes before its
// end. lateNames returns the recording's path.
func lateNames(t *testing.T, requests ...shownRequest) string {
	t.Helper()
	d := sampler.NewDictionary()
	d.SetThread(sampler.ThreadInfo{ID: 1, Main: true, Ractor: 1, TID: 101})
	var file bytes.Buffer
	p := sampler.Process{PID: 42, StackRate: 100, LockRate: 100, RubyVersion: "3.4.1", Era: sampler.EraSched}
	w, err := recording.NewWriter(&file, p, d)
	if err != nil {
		t.Fatal(err)
	}
	const tick, per = int64(10e6), 100
	for n := range int64(len(requests) * per) {
		x := requests[n/per]
		begin := int64(1e12) + n/per*per*tick
		q := sampler.Work{Number: sampler.WorkNumber(1 + n/per), Kind: sampler.WorkRequest, Endpoint: x.path, Path: cmp.Or(x.of, x.path)}
		if x.noPath {
			q.Path = ""
		}
		q.SinceNS, q.BeforeNS = begin, begin-tick
		if n%per >= 70 && x.route != "" {
			q.Endpoint = x.route
		}
		label := "Middleware#call"
		if n%per >= 50 {
			label = "Mixed#show"
		}
		s := &sampler.Sample{TimeNS: int64(1e12) + n*tick, Depth: sampler.StackTick}
		s.Ractors = []sampler.Ractor{{ID: 1, OwnerStart: 1, OwnerEnd: 1}}
		th := sampler.Thread{ID: 1, Ractor: 1, TID: 101, Quality: sampler.StackFresh, Bits: sampler.BitLinked, Blocked: sampler.Blocked{FD: -1},
			Stack: d.InternStack(0, d.InternFrame(sampler.Frame{Label: label, Path: "app.rb"}))}
		th.Kernel = sampler.Kernel{FD: -1, CPUAtNS: s.TimeNS, CPUNS: n * tick}
		th.Serving.Work = d.InternWork(q)
		s.Threads = append(s.Threads, th)
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "late.ddtop")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOneNameInAllOutputs: stat, profiles and the page of one recording count all time of a request under the same
// name. This name does not depend on when ddtop learned it. If ddtop never learned the route of a request, the request
// counts under the route of other requests with the same path.
func TestOneNameInAllOutputs(t *testing.T) {
	t.Parallel()
	late := shownRequest{path: "GET /mixed", route: "GET mixed#show"}
	old := late
	old.noPath = true
	for name, requests := range map[string][]shownRequest{
		"late": {late, late, late}, "without paths": {old, old, old}, "never": {{path: "GET /mixed"}, late, {path: "GET /mixed"}},
		"at once": {{path: "GET mixed#show", route: "GET mixed#show", of: "GET /mixed"}, {path: "GET /mixed"}, late},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); oneName(t, lateNames(t, requests...)) })
	}
}

func oneName(t *testing.T, file string) {
	t.Helper()
	report := func(args ...string) []byte {
		out := filepath.Join(t.TempDir(), "out")
		run(t, append([]string{"report", file, "-o", out}, args...)...).want(t, 0)
		return readAll(t, out)
	}
	var stat struct {
		Requests struct {
			Endpoints []struct {
				Endpoint string
				Ended    int
				NS       map[string]int64
			}
		}
	}
	if err := json.Unmarshal(report("--json"), &stat); err != nil {
		t.Fatal(err)
	}
	list := stat.Requests.Endpoints
	if len(list) != 1 || list[0].Endpoint != "GET mixed#show" || list[0].Ended != 2 {
		t.Fatalf("stat has %+v", list)
	}
	want := list[0].NS["running"]
	if want < 2.9e9 {
		t.Fatalf("stat has %d ns", want)
	}
	same := func(what, name string, ns int64) {
		t.Helper()
		if name != "GET mixed#show" || ns < want-1e6 || ns > want+1e6 {
			t.Errorf("%s: %q has %d ns, in stat it has %d", what, name, ns, want)
		}
	}
	for _, args := range [][]string{{"--format", "pprof"}, {"--format", "pprof", "--timeline"}} {
		p, err := profile.ParseData(report(args...))
		if err != nil {
			t.Fatal(err)
		}
		wall := -1
		for i, typ := range p.SampleType {
			if typ.Type == "wall-time" || typ.Type == "wall" {
				wall = i
			}
		}
		sums := map[string]int64{}
		for _, s := range p.Sample {
			for _, name := range append(s.Label["trace endpoint"], "")[:1] {
				sums[name] += s.Value[wall]
			}
		}
		for name, ns := range sums {
			same(args[len(args)-1], name, ns)
		}
	}
	data := exporttest.PageData(t, report("--format", "html"))
	sums := map[string]int64{}
	for _, slice := range data["slices"].([]any) {
		for x := slice.([]any); len(x) > 0; {
			flags, name, at := int(x[2].(float64)), "", 4
			for _, bit := range []int{16, 32, 64} {
				if flags&bit == 0 {
					continue
				}
				if bit == 64 {
					name = data["served"].([]any)[int(x[at].(float64))].(string)
				}
				at++
			}
			sums[name] += int64(x[3].(float64) * 1e3)
			x = x[at:]
		}
	}
	for name, ns := range sums {
		same("the page", name, ns)
	}
	if routes := data["routes"].([]any); len(routes) != 1 {
		t.Errorf("the page has %v", routes)
	}
	if names := data["served"].([]any); len(names) != 2 {
		t.Errorf("the page offers %v", names)
	}
	for _, format := range []string{"collapsed", "speedscope"} {
		run(t, "report", file, "--format", format, "--endpoint", "mixed$", "-o", filepath.Join(t.TempDir(), "out")).want(t, 1, "the only route or class that was seen is GET mixed#show")
		if a, b := report("--format", format), report("--format", format, "--endpoint", "mixed#show"); !bytes.Equal(a, b) {
			t.Errorf("%s has other time of the route:\n%s\n%s", format, a, b)
		}
	}
}

// TestPathsThatNameNoRoute: if the requests of one path have two different routes, the path has a row of its own in the
// outputs. The same is true if its requests have no route.
func TestPathsThatNameNoRoute(t *testing.T) {
	t.Parallel()
	out := run(t, "report", lateNames(t, shownRequest{path: "GET /a/:id"}, shownRequest{path: "GET /a/:id", route: "GET a#show"},
		shownRequest{path: "GET /a/:id", route: "GET a#edit"}, shownRequest{path: "GET /no"}, shownRequest{path: "GET /no", route: "404 GET /no"},
		shownRequest{path: "GET /a"}), "--json")
	out.want(t, 0)
	var stat struct {
		Requests struct {
			Endpoints []struct{ Endpoint string }
		}
	}
	if err := json.Unmarshal([]byte(out.out), &stat); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range stat.Requests.Endpoints {
		got = append(got, e.Endpoint)
	}
	slices.Sort(got)
	if want := []string{"404 GET /no", "GET /a", "GET /a/:id", "GET a#edit", "GET a#show"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
