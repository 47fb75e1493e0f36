package profile

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/sampler"
)

// recursiveShop is the shop with a stack in which two methods call each other twice.
func recursiveShop() Measured {
	s := exporttest.NewShop()
	walk := s.Dict.InternFrame(sampler.Frame{Label: "Tree#walk", Path: "t.rb", AbsolutePath: "/srv/t.rb", FirstLine: 1, Line: 2})
	visit := s.Dict.InternFrame(sampler.Frame{Label: "Tree#visit", Path: "t.rb", AbsolutePath: "/srv/t.rb", FirstLine: 5, Line: 6})
	stack := s.Dict.InternStackOf([]sampler.FrameID{visit, walk, visit, walk})
	s.Weights.Entries = append(s.Weights.Entries, flamegraph.Entry{
		Key: flamegraph.Key{Thread: 3, Stack: stack, State: gvl.Running}, Weights: flamegraph.Weights{WallNS: 7, CPUNS: 5, Samples: 1}})
	return measured(s)
}

var callgrindAbbreviation = regexp.MustCompile(`^\((\d+)\)(?: (.*))?$`)

// TestCallgrind reads the written file as viewers of Callgrind's format do. The cost of each function, alone and with
// its callees, must equal its cost in the stacks.
func TestCallgrind(t *testing.T) {
	m := recursiveShop()
	var b bytes.Buffer
	if err := WriteCallgrind(&b, m, flamegraph.Wall); err != nil {
		t.Fatal(err)
	}
	names := map[string]map[string]string{"fl": {}, "fn": {}}
	name := func(kind, value string) string {
		p := callgrindAbbreviation.FindStringSubmatch(value)
		if p == nil {
			t.Fatalf("%q is no abbreviation", value)
		}
		if p[2] != "" {
			names[kind][p[1]] = p[2]
		}
		return names[kind][p[1]]
	}
	var fn, callee string
	self, edges := map[string]int64{}, map[string]int64{}
	for line := range strings.SplitSeq(strings.TrimSpace(b.String()), "\n") {
		key, value, is := strings.Cut(line, "=")
		switch {
		case is && (key == "fl" || key == "cfi"):
			name("fl", value)
		case is && key == "fn":
			fn = name("fn", value)
		case is && key == "cfn":
			callee = name("fn", value)
		case is && key == "calls":
		case line != "" && line[0] >= '0' && line[0] <= '9':
			words := strings.Fields(line)
			v, err := strconv.ParseInt(words[1], 10, 64)
			if err != nil || len(words) != 1+len(callgrindEvents) {
				t.Fatalf("%q: %v", line, err)
			}
			if callee != "" {
				edges[fn+" > "+callee] += v
				callee = ""
			} else {
				self[fn] += v
			}
		}
	}
	wantSelf, wantEdges, total := map[string]int64{}, map[string]int64{}, int64(0)
	for _, e := range m.Weights.Entries {
		labels := []string{}
		for _, f := range m.Dict.Frames(e.Key.Stack, nil) {
			labels = append(labels, m.Dict.Frame(f).Label)
		}
		if len(labels) == 0 {
			labels = []string{flamegraph.NoStack}
		}
		total += e.Weights.WallNS
		wantSelf[labels[0]] += e.Weights.WallNS
		var seen []string
		for i := range len(labels) - 1 {
			if edge := labels[i+1] + " > " + labels[i]; !slices.Contains(seen, edge) {
				seen = append(seen, edge)
				wantEdges[edge] += e.Weights.WallNS
			}
		}
	}
	for _, c := range []struct {
		what      string
		got, want map[string]int64
	}{{"self", self, wantSelf}, {"calls", edges, wantEdges}} {
		for k, v := range c.want {
			if c.got[k] != v {
				t.Errorf("%s of %s: %d, want %d", c.what, k, c.got[k], v)
			}
		}
		if len(c.got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if wantEdges["Tree#walk > Tree#visit"] != 7 || !strings.Contains(b.String(), "\nsummary: "+strconv.FormatInt(total, 10)+" ") {
		t.Errorf("%v\n%s", wantEdges, b.String())
	}
	annotate, err := exec.LookPath("callgrind_annotate")
	if err != nil {
		t.Skip("apt-get install valgrind: ", err)
	}
	file := filepath.Join(t.TempDir(), "callgrind.out.1")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for inclusive, wants := range map[string][]string{
		"no":  {`120,000,000,007 \(100`, `27,000,000,000 .*DB#query`, `21,000,000,000 .*JSON\.generate`},
		"yes": {`120,000,000,007 \(100`, `30,000,000,000 .*DB#query`, `30,000,000,000 .*Reports\.loop`},
	} {
		out, err := exec.Command(annotate, "--inclusive="+inclusive, "--threshold=100", file).CombinedOutput()
		if err != nil || strings.Contains(string(out), "WARNING") {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range wants {
			if !regexp.MustCompile(want).Match(out) {
				t.Errorf("callgrind_annotate --inclusive=%s lacks %q:\n%s", inclusive, want, out)
			}
		}
	}
}
