package findingstest

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

//go:embed testdata
var programs embed.FS

// each runs a test on the oldest and on the newest Ruby of Debian. These two are enough, because findings only use
// states and stacks, and other tests check these on every Ruby. With the build tag verify, the function each uses every
// installed Ruby.
func each(t *testing.T, test func(t *testing.T, r rubytest.Ruby)) {
	for _, r := range chosen(t) {
		t.Run(r.Name, func(t *testing.T) { test(t, r) })
	}
}

// chosen returns the Rubies on which the function each runs a test.
func chosen(t *testing.T) []rubytest.Ruby {
	all := rubytest.All(t)
	debian := slices.DeleteFunc(slices.Clone(all), func(r rubytest.Ruby) bool { return r.Root == "" })
	if len(debian) > 0 && !everyRuby {
		all = debian
	}
	if len(all) > 2 && !everyRuby {
		all = []rubytest.Ruby{all[0], all[len(all)-1]}
	}
	return all
}

// nextAddress is used to give each program its own loopback address, so that several programs can listen on the same
// port.
var nextAddress atomic.Int32

// atOnce is how many tests run at the same time if they compute little. Such tests mostly wait until a condition has
// lasted for the time that its rule needs.
const atOnce = 8

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// bootTime is how old a program must be before a test watches it. Rules about load report nothing while a program is
// younger.
const bootTime = 5500 * time.Millisecond

// program is a running program of testdata.
type program struct {
	*rubytest.Process
	name    string
	started time.Time
	// address is the program's own loopback address.
	address string
}

// load starts a program of testdata. If the program computes, it first waits until begin is called. So a test can start
// the program long before it watches the program. When the test begins, the program is old enough for rules about load.
func load(t *testing.T, r rubytest.Ruby, name string) *program {
	t.Helper()
	n := nextAddress.Add(1)
	address := fmt.Sprintf("127.44.%d.%d", n/200, 2+n%200)
	ownMounts := strings.HasSuffix(name, "dns_slow") || name == "dns/asks"
	p := r.Start(t, source(t, name), rubytest.Options{Args: []string{address}, OwnMounts: ownMounts})
	return &program{p, name, time.Now(), address}
}

// begin lets a program begin its work, after the function load has started the program. It returns when the program is
// ready.
func (p *program) begin(t *testing.T) {
	t.Helper()
	line := p.Line(t)
	if line == "loaded" {
		select {
		case <-time.After(time.Until(p.started.Add(bootTime))):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		p.Send(t, "go")
		line = p.Line(t)
	}
	if line != "ready" {
		if why, ok := strings.CutPrefix(line, "skip "); ok {
			rubytest.Skip(t, "%s: %s", p.name, why)
		}
		t.Fatalf("%s says %q", p.name, line)
	}
}

// start starts a program of testdata and lets it begin its work. It returns when the program is ready.
func start(t *testing.T, r rubytest.Ruby, name string) *program {
	t.Helper()
	p := load(t, r, name)
	p.begin(t)
	return p
}

func source(t *testing.T, name string) string {
	t.Helper()
	prelude, err := programs.ReadFile("testdata/prelude.rb")
	if err != nil {
		t.Fatal(err)
	}
	program, err := programs.ReadFile("testdata/" + name + ".rb")
	if err != nil {
		t.Fatal(err)
	}
	return string(prelude) + string(program)
}

// names lists the names of the programs in a folder of testdata, without ".rb".
func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := programs.ReadDir("testdata/" + folder)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(path.Base(e.Name()), ".rb"))
	}
	return out
}

// seen is what ddtop found in a process while a test watched it.
type seen struct {
	findings []report.StatFinding
	// atNS is when each finding was first raised, in ns since the first sample. tick is the number of the sample at
	// that time.
	atNS map[string]int64
	tick map[string]int
	stat report.Stat
	// gapNS is the longest time between two samples. stackGapNS is the longest time between two samples with stacks.
	gapNS, stackGapNS int64
}

func (s *seen) finding(id string) (report.StatFinding, bool) {
	for _, f := range s.findings {
		if f.ID == id {
			return f, true
		}
	}
	return report.StatFinding{}, false
}

func (s *seen) String() string {
	var b strings.Builder
	for _, f := range s.findings {
		fmt.Fprintf(&b, "\n  %s after %v: %s: %s", f.ID, time.Duration(s.atNS[f.ID]).Round(time.Millisecond), f.Title, f.Text)
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

// askEvery is the number of samples after which watch reads the findings again.
const askEvery = 25

// askEveryNS is the time after which watch reads the findings again, in ns, even if there were fewer than askEvery
// samples. With a CPU budget, samples can be rare.
const askEveryNS = int64(time.Second)

// is returns a condition for watch: that a finding has this ID.
func is(id string) func(report.StatFinding) bool {
	return func(f report.StatFinding) bool { return f.ID == id }
}

// watch samples a process for a length of time. It ends earlier when there is a finding for which the function until
// returns true. After each sample it calls the function during with the source and the sample's number. Both functions
// may be nil.
func watch(t *testing.T, pid int, rules *findings.Rules, length time.Duration, until func(report.StatFinding) bool, during func(src *live.Source, n int)) *seen {
	t.Helper()
	return watchBy(t, pid, live.Options{}, rules, length, until, during)
}

// watchBy is like watch, but also takes options for the source of the samples.
func watchBy(t *testing.T, pid int, o live.Options, rules *findings.Rules, length time.Duration, until func(report.StatFinding) bool, during func(src *live.Source, n int)) *seen {
	t.Helper()
	src, err := live.Open(context.Background(), pid, o)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	m := measure.New(src.Process(), src.Dictionary(), rules)
	var file bytes.Buffer
	rec, err := recording.NewWriter(&file, src.Process(), src.Dictionary())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	s := &seen{atNS: map[string]int64{}, tick: map[string]int{}}
	var first, last, lastStack, asked int64
	found := false
	n := 0
	err = src.Run(ctx, func(x *sampler.Sample) {
		m.Feed(x)
		if err := rec.Write(x); err != nil {
			t.Error(err)
		}
		if n++; n == 1 {
			first, last, lastStack = x.TimeNS, x.TimeNS, x.TimeNS
		}
		if x.Depth == sampler.StackTick {
			s.stackGapNS = max(s.stackGapNS, x.TimeNS-lastStack)
			lastStack = x.TimeNS
		}
		s.gapNS = max(s.gapNS, x.TimeNS-last)
		last = x.TimeNS
		if during != nil {
			during(src, n)
		}
		if (n%askEvery != 0 && x.TimeNS-asked < askEveryNS) || found {
			return // keep the findings as they are: later samples may change their text
		}
		asked = x.TimeNS
		s.findings = m.Findings()
		for _, f := range s.findings {
			if _, ok := s.atNS[f.ID]; !ok {
				s.atNS[f.ID], s.tick[f.ID] = x.TimeNS-first, n
			}
			if until != nil && until(f) {
				found = true
				cancel()
			}
		}
	})
	if err != nil && !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	s.stat = m.Stat(0)
	if err := rec.Close(nil); err != nil {
		t.Fatal(err)
	}
	checkReplay(t, file.Bytes(), rules, &s.stat)
	return s
}

// checkReplay checks that a recording of the samples has the same results as the samples themselves. The results are
// the findings and their texts, allocations by class, and what the kernel reports about the process.
func checkReplay(t *testing.T, file []byte, rules *findings.Rules, was *report.Stat) {
	t.Helper()
	r, err := recording.NewReader(bytes.NewReader(file), int64(len(file)), "watched.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m := measure.New(r.Process(), r.Dictionary(), rules)
	if err := r.Run(t.Context(), func(x *sampler.Sample) { m.Feed(x) }); !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	now := m.Stat(0)
	for _, c := range []struct {
		what     string
		was, now any
	}{
		{"findings", was.Findings, now.Findings}, {"collector", was.GC, now.GC}, {"process", was.Process, now.Process},
		{"priority", was.Self.Priority, now.Self.Priority}, {"instants of allocations", was.Alloc.Instants, now.Alloc.Instants},
	} {
		a, errA := json.Marshal(c.was)
		b, errB := json.Marshal(c.now)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) && (c.what != "findings" || !sameButRounding(string(a), string(b))) {
			t.Errorf("%s: live %s\nreplayed %s", c.what, a, b)
		}
	}
	// A recording rounds the numbers of objects. So two classes with few objects may be in another order.
	shares := make(map[string]float64)
	for _, c := range now.Alloc.Classes {
		shares[c.Name] = c.Share
	}
	for i, c := range was.Alloc.Classes {
		share, ok := shares[c.Name]
		if few := c.Objects < 2 || i == account.MaxStatClasses-1; !few && (!ok || math.Abs(share-c.Share) > .001) {
			t.Errorf("allocations of %s: %.4f, replayed %.4f", c.Name, c.Share, share)
		}
	}
}

var numbers = regexp.MustCompile(`[0-9]+`)

// sameButRounding reports whether two texts differ only in the rounding of numbers. A recording has times in µs. So a
// time in ns may differ by 1 µs, and a number by 1, as in 417.4 ms and 417.6 ms.
func sameButRounding(a, b string) bool {
	as, bs := numbers.FindAllString(a, -1), numbers.FindAllString(b, -1)
	if len(as) != len(bs) || numbers.ReplaceAllString(a, "0") != numbers.ReplaceAllString(b, "0") {
		return false
	}
	for i := range as {
		if as[i] == bs[i] {
			continue
		}
		x, errX := strconv.ParseInt(as[i], 10, 64)
		y, errY := strconv.ParseInt(bs[i], 10, 64)
		if errX != nil || errY != nil || (x-y > 1 || y-x > 1) && max(x-y, y-x) != int64(time.Microsecond) {
			return false
		}
	}
	return true
}

// rulesWith returns the default rules with changes.
func rulesWith(t *testing.T, sets ...string) *findings.Rules {
	t.Helper()
	r := findings.NewRules()
	for _, set := range sets {
		if err := r.Set(set); err != nil {
			t.Fatal(err)
		}
	}
	return r
}
