package pushtest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// binary is the path of ddtop's binary, after it is built. Other users can also reach its folder.
var binary struct {
	sync.Once
	dir string
	err error
}

// TestMain runs the tests, and then removes the binary.
func TestMain(m *testing.M) {
	code := m.Run()
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir) // an error does not matter, because the folder is in /tmp
	}
	os.Exit(code)
}

// build builds ddtop's binary and returns its path. If DDTOP_TEST_BINARY is set, build returns that path instead.
func build(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("DDTOP_TEST_BINARY"); path != "" {
		return path
	}
	binary.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "ddtop-pushtest"); binary.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", filepath.Join(binary.dir, "ddtop"), ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("building ddtop: %w\n%s", err, text)
		} else {
			binary.err = os.Chmod(binary.dir, 0o755)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return filepath.Join(binary.dir, "ddtop")
}

// totals are the sums of a profile's values. The keys have a sample type and ddtop's number of the thread, such as
// "wall-time 3".
type totals map[string]int64

// byPeriod has the totals of each period. The keys are the times at which the periods began, in ns since 1970.
type byPeriod map[int64]totals

// pprof adds up the values in a pprof profile.
func (b byPeriod) pprof(t *testing.T, data []byte) {
	t.Helper()
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	sums := make(totals)
	for _, s := range p.Sample {
		_, thread, ok := strings.Cut(strings.TrimSuffix(s.Label["thread id"][0], ")"), "(")
		if !ok {
			t.Errorf("a sample of thread %q", s.Label["thread id"])
		}
		for i, v := range s.Value {
			if name := p.SampleType[i].Type; name != "cpu-samples" && name != "timeline" && name != "alloc-samples" && v != 0 {
				sums[name+" "+thread] += v
			}
		}
	}
	if b[p.TimeNanos] != nil {
		t.Errorf("the period from %d on arrived twice", p.TimeNanos)
	}
	b[p.TimeNanos] = sums
}

// otlp adds up the values of the profiles in an OTLP request.
func (b byPeriod) otlp(t *testing.T, p pprofile.Profiles) {
	t.Helper()
	dict, sums, from := p.Dictionary(), make(totals), int64(0)
	for _, one := range p.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().All() {
		from = one.Time().AsTime().UnixNano()
		name := dict.StringTable().At(int(one.SampleType().TypeStrindex()))
		for _, s := range one.Samples().All() {
			thread := attributes(dict, s.AttributeIndices())["ddtop.thread"]
			for _, v := range s.Values().All() {
				sums[name+" "+thread] += v
			}
		}
	}
	if b[from] != nil {
		t.Errorf("the period from %d on arrived twice", from)
	}
	b[from] = sums
}

// TestSameTotals: all destinations get the same totals of a period, by thread and sample type, exact to the ns. This is
// possible because the values are whole numbers in the format of each destination.
func TestSameTotals(t *testing.T) {
	ddtop := build(t)
	ruby := rubytest.One(t).Start(t, `$stdout.sync = true
3.times { |n| Thread.new { loop { 20_000.times { |i| i * i }; sleep 0.001 * n } }.name = "worker #{n}" }
puts "up"; sleep`, rubytest.Options{})
	ruby.Expect(t, "up")

	in, pyro, otel, dir := startIntake(t), startPyroscope(t), startCollector(t), filepath.Join(t.TempDir(), "profiles")
	agent, _ := startAgent(t, in)
	args := []string{"push", "--overhead", "off", "--period", "1s", "-p", strconv.Itoa(ruby.PID)}
	for _, to := range []string{"file://" + dir, agent, pyro.url(), otel.http, otel.grpc} {
		args = append(args, "--to", to)
	}
	cmd := exec.Command(ddtop, args...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill() // fails if ddtop has ended already
			_ = cmd.Wait()
		}
	}()
	const periods = 3
	files := func() []string {
		list, err := filepath.Glob(filepath.Join(dir, "*.pb.gz"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	// both returns how many periods have arrived both by HTTP and by gRPC.
	both := func() (n int) {
		times := make(map[int64]int)
		for _, r := range otel.requests() {
			at := r.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Time().AsTime().UnixNano()
			if times[at]++; times[at] == 2 {
				n++
			}
		}
		return n
	}
	for deadline := time.Now().Add(timeout); len(files()) < periods || len(in.uploads()) < periods || len(pyro.requests()) < periods || both() < periods; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %d periods: %d files, %d by the agent, %d at Pyroscope, %d at the collector", periods, len(files()), len(in.uploads()), len(pyro.requests()), len(otel.requests()))
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	ended = true
	if err != nil {
		t.Errorf("%v; it said:\n%s", err, &log)
	}

	file, datadog, pyroscope, overHTTP, overGRPC := make(byPeriod), make(byPeriod), make(byPeriod), make(byPeriod), make(byPeriod)
	for _, name := range files() {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file.pprof(t, data)
	}
	for _, u := range in.uploads() {
		datadog.pprof(t, u.files["profile.pprof"])
	}
	for _, r := range pyro.requests() {
		pyroscope.pprof(t, r.Series[0].Samples[0].RawProfile)
		p, err := profile.ParseData(r.Series[0].Samples[0].RawProfile)
		if err != nil || p.PeriodType == nil || p.Period == 0 {
			t.Errorf("without a period, by which Pyroscope names its types: %v", err)
		}
	}
	seen := make(map[int64]bool)
	for _, r := range otel.requests() { // the requests are from two destinations, in any order
		one := make(byPeriod)
		one.otlp(t, r)
		for from := range one {
			if to := overHTTP; !seen[from] {
				seen[from] = true
				maps.Copy(to, one)
			} else {
				maps.Copy(overGRPC, one)
			}
		}
	}
	same := 0
	for from, want := range file {
		all := true
		for name, got := range map[string]byPeriod{"datadog": datadog, "pyroscope": pyroscope, "OTLP, first": overHTTP, "OTLP, second": overGRPC} {
			switch sums, ok := got[from]; {
			case !ok: // the last period may have come too late for one destination
				all = false
			case !maps.Equal(sums, want):
				t.Errorf("%s has %s, the file %s", name, sums, want)
			}
		}
		if all {
			same++
		}
		for _, kind := range []string{"wall-time ", "cpu-time "} {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(key string) bool { return strings.HasPrefix(key, kind) }) {
				t.Errorf("no %sin %s", kind, want)
			}
		}
	}
	if same < periods {
		t.Errorf("%d periods are in all targets, %d were waited for", same, periods)
	}
}

// String lists the totals in a fixed order.
func (s totals) String() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s: %d; ", key, s[key])
	}
	return b.String()
}
