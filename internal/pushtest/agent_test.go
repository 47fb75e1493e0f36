package pushtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/DataDog/datadog-agent/pkg/trace/api"
	"github.com/DataDog/datadog-agent/pkg/trace/config"
	"github.com/DataDog/datadog-agent/pkg/trace/sampler"
	"github.com/DataDog/datadog-agent/pkg/trace/telemetry"
	"github.com/DataDog/datadog-agent/pkg/trace/timing"
	"github.com/DataDog/datadog-go/v5/statsd"
	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/datadog"
	"github.com/ddtop/ddtop/push/spool"
)

// timeout limits how long the tests wait for anything. Even the slowest machine needs less time.
const timeout = 5 * time.Minute

// intake imitates Datadog's server. It keeps what the agent forwards. If the test sets an error status, intake answers
// with this status.
type intake struct {
	*httptest.Server
	mu     sync.Mutex
	status int // zero if the intake accepts everything
	got    []upload
}

// upload is one request to the intake.
type upload struct {
	header http.Header
	event  map[string]any
	files  map[string][]byte
}

func startIntake(t *testing.T) *intake {
	i := new(intake)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := readUpload(r)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.status != 0 {
			w.WriteHeader(i.status)
			return
		}
		if err != nil {
			t.Errorf("the intake was sent: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		i.got = append(i.got, u)
	}))
	t.Cleanup(i.Close)
	return i
}

func readUpload(r *http.Request) (upload, error) {
	u := upload{header: r.Header, files: make(map[string][]byte)}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return u, fmt.Errorf("content type %q: %w", kind, err)
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return u, nil
		}
		if err != nil {
			return u, err
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return u, err
		}
		if part.FormName() == "event" {
			err = json.Unmarshal(data, &u.event)
		} else {
			u.files[part.FileName()] = data
		}
		if err != nil {
			return u, err
		}
	}
}

func (i *intake) set(status int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status = status
}

func (i *intake) uploads() []upload {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.got)
}

// startAgent starts the receiver of Datadog's agent, which forwards profiles to an intake. It returns two destinations
// for ddtop push: the agent's port and its socket.
func startAgent(t *testing.T, i *intake) (port, socket string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conf := config.New()
	conf.Hostname, conf.DefaultEnv, conf.AgentVersion = "agent-host", "none", "7.85.2"
	conf.Endpoints[0].APIKey = "the agent's key"
	// By default the agent limits a request to 5 s, which is too short on a busy machine.
	conf.ReceiverTimeout, conf.ProfilingProxy.ReceiverTimeout = int(timeout/time.Second), int(timeout/time.Second)
	conf.ReceiverHost, conf.ReceiverPort = "127.0.0.1", listener.Addr().(*net.TCPAddr).Port
	conf.ReceiverSocket = filepath.Join(t.TempDir(), "apm.socket")
	conf.ProfilingProxy.DDURL = i.URL + "/api/v2/profile"
	conf.ContainerTags = func(id string) ([]string, error) { return []string{"container_of:" + id[:4]}, nil }
	r := api.NewHTTPReceiver(conf, sampler.NewDynamicConfig(), make(chan *api.Payload, 1), make(chan *api.PayloadV1, 1), nil, telemetry.NewNoopCollector(), &statsd.NoOpClient{}, &timing.NoopReporter{})
	r.SetTCPListener(listener)
	r.Start() // the test never stops the receiver, because Stop would wait for idle connections
	return fmt.Sprintf("datadog://127.0.0.1:%d", conf.ReceiverPort), "unix://" + conf.ReceiverSocket
}

func destination(t *testing.T, text string) *datadog.Intake {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := datadog.New(u, "", "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// period returns a period of push, with a profile of a process that waited for the GVL.
func period(t *testing.T, seq int) *push.Period {
	t.Helper()
	from := time.Date(2026, 11, 23, 8, seq, 0, 123456789, time.UTC)
	f := &profile.Function{ID: 1, Name: "Order#total", Filename: "/gems/rack-2.2.7/lib/rack.rb"}
	m := &profile.Mapping{ID: 1, File: "gem rack 2.2.7"}
	l := &profile.Location{ID: 1, Mapping: m, Line: []profile.Line{{Function: f, Line: 7}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "wall-time", Unit: "nanoseconds"}, {Type: "gvl-wait", Unit: "nanoseconds"}},
		TimeNanos:  from.UnixNano(), DurationNanos: 60e9, Mapping: []*profile.Mapping{m}, Function: []*profile.Function{f}, Location: []*profile.Location{l},
		Sample: []*profile.Sample{{Value: []int64{60e9, 7e9}, Location: []*profile.Location{l}}, {Value: []int64{1, 5}, Location: []*profile.Location{l}}},
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return &push.Period{
		Process: push.Process{PID: 4242, Title: "puma", RubyVersion: "3.4.1"}, From: from, To: from.Add(time.Minute), Seq: seq, Pprof: b.Bytes(),
		Ended: map[string]int64{"GET orders#index": 17},
		Tags:  push.Tags{{Key: "service", Value: "shop"}, {Key: "env", Value: "prod"}, {Key: "container_id", Value: strings.Repeat("ab", 32)}},
	}
}

// TestAgent: ddtop sends a profile to Datadog's agent, by TCP and by the agent's socket. What the agent forwards must
// be what Datadog's server expects.
func TestAgent(t *testing.T) {
	in := startIntake(t)
	port, socket := startAgent(t, in)
	for _, to := range []string{port, socket} {
		d, p := destination(t, to), period(t, 3)
		payload, err := d.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Send(t.Context(), &payload); err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		all := in.uploads()
		u := all[len(all)-1]
		want := map[string]any{
			"attachments":   []any{"code-provenance.json", "metrics.json", "profile.pprof"},
			"tags_profiler": "service:shop,env:prod,container_id:" + strings.Repeat("ab", 32) + ",profile_seq:3",
			"start":         "2026-11-23T08:03:00.123456789Z", "end": "2026-11-23T08:04:00.123456789Z", "family": "ruby", "version": "4",
			"endpoint_counts": map[string]any{"GET orders#index": 17.0},
		}
		for key, value := range want {
			if fmt.Sprint(u.event[key]) != fmt.Sprint(value) {
				t.Errorf("%s: %s is %v, want %v", to, key, u.event[key], value)
			}
		}
		if !bytes.Equal(u.files["profile.pprof"], p.Pprof) {
			t.Errorf("%s: the profile is another one", to)
		}
		if got := string(u.files["metrics.json"]); got != `[["ruby_global_lock_wait_time_total",7000000005]]` {
			t.Errorf("%s: metrics %s", to, got)
		}
		if got := string(u.files["code-provenance.json"]); got != `{"v1":[{"kind":"library","name":"rack","version":"2.2.7","paths":["/gems/rack-2.2.7"]}]}` {
			t.Errorf("%s: provenance %s", to, got)
		}
		for name, value := range map[string]string{"DD-API-KEY": "the agent's key", "DD-EVP-ORIGIN": "ddtop", "DD-EVP-ORIGIN-VERSION": "0.1.0", "X-Datadog-Container-Tags": "container_of:abab"} {
			if u.header.Get(name) != value {
				t.Errorf("%s: header %s is %q, want %q", to, name, u.header.Get(name), value)
			}
		}
	}
}

// TestOutageBehindTheAgent: Datadog's agent forwards profiles to Datadog's server. If the server is unavailable, ddtop
// sends the profile again. If the server refuses a profile, ddtop drops this profile. All other profiles arrive once,
// in order.
func TestOutageBehindTheAgent(t *testing.T) {
	in := startIntake(t)
	port, _ := startAgent(t, in)
	q, err := spool.Open(filepath.Join(t.TempDir(), "spool"), spool.Limits{Bytes: 1 << 20, Count: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	p := push.New([]push.Route{{Destination: destination(t, port), Queue: q}}, slog.New(slog.DiscardHandler))
	await := func(what string, so func(push.Stats) bool) {
		t.Helper()
		for deadline := time.Now().Add(timeout); !so(p.Stats()[0]); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited for %s: %+v", what, p.Stats()[0])
			}
		}
	}
	p.Add(period(t, 0))
	await("the first one", func(s push.Stats) bool { return s.Sent == 1 })
	in.set(http.StatusForbidden)
	p.Add(period(t, 1))
	await("a refusal", func(s push.Stats) bool { return s.Refused == 1 })
	in.set(http.StatusServiceUnavailable)
	p.Add(period(t, 2))
	p.Add(period(t, 3))
	await("failures", func(s push.Stats) bool { return s.Failures >= 2 })
	in.set(0)
	await("the rest", func(s push.Stats) bool { return s.Sent == 3 && s.Spool.Count == 0 })
	p.Close(t.Context())
	var seqs []string
	for _, u := range in.uploads() {
		_, seq, _ := strings.Cut(fmt.Sprint(u.event["tags_profiler"]), "profile_seq:")
		seqs = append(seqs, seq)
	}
	if got := strings.Join(seqs, " "); got != "0 2 3" {
		t.Errorf("arrived: %s", got)
	}
}
