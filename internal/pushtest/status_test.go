package pushtest

import (
	"bytes"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/spool"
	"github.com/ddtop/ddtop/push/status"
)

// parse reads ddtop's status page as Prometheus does, and checks the metrics' names with promlint.
func parse(t *testing.T, page []byte) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		t.Fatalf("%v in\n%s", err, page)
	}
	problems, err := promlint.New(bytes.NewReader(page)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	return all
}

// valueOf returns the value of the metric that has the given name and label. It returns NaN if there is no such metric.
func valueOf(all map[string]*dto.MetricFamily, name, label string) float64 {
	for _, m := range all[name].GetMetric() {
		if label == "" || slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetValue() == label }) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return math.NaN()
}

// TestMetricsOfHostileNames: whatever names services and destinations have, Prometheus can read the status page. It
// reads the names unchanged.
func TestMetricsOfHostileNames(t *testing.T) {
	names := []string{"shop", "", "a\"} 7\n# EOF\nddtop_processes{x=\"", `back\slash\`, "new\nline", "\x00\x01\x7f", "emoji 🚀", "bad \xff utf", "{}", `\n`, "# HELP x"}
	f := &status.Figures{Version: "0.1\"\n", CPUNS: 1}
	for i, name := range names {
		s := status.Service{Name: name, Processes: i, ObservedNS: 1e9, WaitsNS: 7e6}
		s.Waits[3], s.Waits[len(status.Buckets)] = 2, 1
		f.Services = append(f.Services, s)
		f.Destinations = append(f.Destinations, push.Stats{Destination: name, Sent: int64(i), LastSent: time.Unix(5, 0), Spool: spool.Stats{Count: i}})
	}
	var b bytes.Buffer
	if err := status.Write(&b, f); err != nil {
		t.Fatal(err)
	}
	all := parse(t, b.Bytes())
	var again bytes.Buffer // how Prometheus' own code writes these metrics
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, err := expfmt.MetricFamilyToText(&again, all[name]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("the page\n%s\nis written by Prometheus as\n%s", &b, &again)
	}
	for i, name := range names {
		name = strings.ToValidUTF8(name, "\ufffd")
		for metric, want := range map[string]float64{"ddtop_service_processes": float64(i), "ddtop_push_profiles_sent_total": float64(i), "ddtop_push_spool_profiles": float64(i), "ddtop_gvl_wait_seconds": 3} {
			var got float64
			for _, m := range all[metric].GetMetric() {
				if m.Label[0].GetValue() == name {
					got = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
			if got != want {
				t.Errorf("%s of %q is %v, want %v", metric, name, got, want)
			}
		}
	}
	if v := valueOf(all, "ddtop_processes", ""); v != 0 || len(all["ddtop_processes"].Metric) != 1 {
		t.Errorf("ddtop_processes: %v", all["ddtop_processes"])
	}
}

// TestStatus: ddtop push watches a real Ruby whose threads compete for the GVL. Its status page has the expected
// metrics.
func TestStatus(t *testing.T) {
	ddtop := build(t)
	ruby := rubytest.One(t).Start(t, `$stdout.sync = true; 3.times { Thread.new { loop { 20_000.times { |i| i * i } } } }; puts "up"; sleep`, rubytest.Options{})
	ruby.Expect(t, "up")
	at := freePort(t)
	cmd := exec.Command(ddtop, "push", "--overhead", "off", "--period", "1s", "-p", strconv.Itoa(ruby.PID), "--tag", "service:shop", "--status", at, "--to", "file://"+t.TempDir())
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // fails if ddtop has ended already
			_ = cmd.Wait()
		}
	}()
	var all map[string]*dto.MetricFamily
	for deadline := time.Now().Add(timeout); !(valueOf(all, "ddtop_push_profiles_sent_total", "") >= 3 && valueOf(all, "ddtop_gvl_wait_seconds", "shop") >= 3); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for three profiles and waits; %v\n%s", all, &log)
		}
		if c, err := net.Dial("tcp", at); err != nil {
			continue // ddtop is starting
		} else {
			c.Close()
		}
		resp, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v: %s", resp.StatusCode, err, page)
		}
		all = parse(t, page)
	}
	observed := valueOf(all, "ddtop_observed_seconds_total", "shop")
	for metric, most := range map[string]float64{"ddtop_gvl_held_seconds_total": observed + 1, "ddtop_gvl_waiting_seconds_total": 4*observed + 4, "ddtop_gvl_wait_p99_seconds": math.Inf(1), "ddtop_cpu_seconds_total": math.Inf(1)} {
		label := "shop"
		if metric == "ddtop_cpu_seconds_total" {
			label = ""
		}
		// ddtop counts an interval of a thread only when the interval is complete. So the reported times may be up to
		// one second behind the observed time.
		if v := valueOf(all, metric, label); !(v > 0 && v <= most) {
			t.Errorf("%s is %v, of %v s observed", metric, v, observed)
		}
	}
	if valueOf(all, "ddtop_service_processes", "shop") != 1 || valueOf(all, "ddtop_processes", "") != 1 {
		t.Errorf("processes: %v, %v", all["ddtop_service_processes"], all["ddtop_processes"])
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v; it said:\n%s", err, &log)
	}
}
