package pushtest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/xreceiver"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/otlp"
)

// collector is OpenTelemetry's own receiver for OTLP. It keeps the profiles and logs that it receives.
type collector struct {
	http, grpc string // the receiver's URLs for HTTP and for gRPC

	mu   sync.Mutex
	err  error
	got  []pprofile.Profiles
	logs []plog.Logs
}

// ConsumeLogs gets the logs from the receiver, like the next step of a collector's pipeline. It keeps them.
func (c *collector) ConsumeLogs(_ context.Context, l plog.Logs) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		kept := plog.NewLogs()
		l.CopyTo(kept)
		c.logs = append(c.logs, kept)
	}
	return c.err
}

// Capabilities tells the receiver that the collector does not change the data.
func (c *collector) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeProfiles gets the profiles from the receiver, like the next step of a collector's pipeline. It keeps them.
func (c *collector) ConsumeProfiles(_ context.Context, p pprofile.Profiles) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		kept := pprofile.NewProfiles()
		p.CopyTo(kept)
		c.got = append(c.got, kept)
	}
	return c.err
}

func (c *collector) set(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// requests returns the profiles that the collector has accepted so far.
func (c *collector) requests() []pprofile.Profiles {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// freePort returns an address with a port that is free at the moment. Another program may still take it.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := new(collector)
	factory := otlpreceiver.NewFactory()
	// The receiver needs a fixed port. Another program may take the free port before the receiver listens on it, so the
	// test tries several ports.
	for try := 0; ; try++ {
		conf := factory.CreateDefaultConfig().(*otlpreceiver.Config)
		overGRPC, overHTTP := configgrpc.NewDefaultServerConfig(), confighttp.NewDefaultServerConfig()
		overGRPC.NetAddr.Endpoint, overHTTP.NetAddr.Endpoint = freePort(t), freePort(t)
		overGRPC.NetAddr.Transport = "tcp"
		conf.Protocols.GRPC = configoptional.Some(overGRPC)
		conf.Protocols.HTTP = configoptional.Some(otlpreceiver.HTTPConfig{ServerConfig: overHTTP, LogsURLPath: "/v1/logs"})
		set := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
		r, err := factory.(xreceiver.Factory).CreateProfiles(t.Context(), set, conf, xconsumer.Profiles(c))
		if err != nil {
			t.Fatal(err)
		}
		// The factory has already made a receiver for these settings. It returns the same receiver again, which now
		// also accepts logs.
		if _, err := factory.CreateLogs(t.Context(), set, conf, c); err != nil {
			t.Fatal(err)
		}
		if err := r.Start(context.Background(), componenttest.NewNopHost()); err != nil {
			if try < 20 {
				continue
			}
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
		c.http, c.grpc = "otlp+http://"+overHTTP.NetAddr.Endpoint, "otlp+grpc://"+overGRPC.NetAddr.Endpoint
		return c
	}
}

func otlpAt(t *testing.T, text string) *otlp.Collector {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := otlp.New(u, "x-key=hunter2", "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// told returns a period whose profile has everything that ddtop can write into a profile.
func told(t *testing.T) *push.Period {
	t.Helper()
	p := period(t, 3)
	parsed, err := profile.ParseData(p.Pprof)
	if err != nil {
		t.Fatal(err)
	}
	parsed.PeriodType, parsed.Period = &profile.ValueType{Type: "wall-time", Unit: "nanoseconds"}, 10e6
	parsed.SampleType = append(parsed.SampleType, &profile.ValueType{Type: "cpu-samples", Unit: "count"})
	for i, s := range parsed.Sample {
		s.Value = append(s.Value, 9)
		s.Label = map[string][]string{
			"thread id": {"4253 (3)"}, "thread name": {"worker"}, "state": {"had cpu"}, "ddtop state": {"running"}, "trace endpoint": {"GET orders#index"}, "ractor": {"1"},
		}
		if i == 0 {
			s.Label["trace id"] = []string{"0123456789abcdef0123456789abcdef"}
			s.NumLabel = map[string][]int64{"span id": {-2}}
		}
	}
	again := *parsed.Sample[1] // a copy of the sample that differs only in Datadog's word for the state
	again.Label = map[string][]string{}
	for k, v := range parsed.Sample[1].Label {
		again.Label[k] = v
	}
	again.Label["state"] = []string{"blocked"}
	parsed.Sample = append(parsed.Sample, &again)
	var b strings.Builder
	if err := parsed.Write(&b); err != nil {
		t.Fatal(err)
	}
	p.Pprof = []byte(b.String())
	p.Tags = append(p.Tags, push.Tag{Key: "process_id", Value: "4242"}, push.Tag{Key: "runtime-id", Value: "r-1"}, push.Tag{Key: "team", Value: "blue"})
	return p
}

// attributes returns the attributes of a sample by their names. indices are the positions of these attributes in the
// dictionary d.
func attributes(d pprofile.ProfilesDictionary, indices pcommon.Int32Slice) map[string]string {
	out := make(map[string]string)
	for _, i := range indices.All() {
		a := d.AttributeTable().At(int(i))
		out[d.StringTable().At(int(a.KeyStrindex()))] = a.Value().AsString()
	}
	return out
}

// TestOTLP: ddtop sends a profile that has everything it can contain, by HTTP and by gRPC. OpenTelemetry's own receiver
// must read all of it.
func TestOTLP(t *testing.T) {
	c := startCollector(t)
	for i, to := range []string{c.http, c.grpc} {
		d := otlpAt(t, to)
		if d.String() != to {
			t.Errorf("%s is called %s", to, d)
		}
		if err := send(t, d, told(t)); err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		got := c.requests()[i]
		dict := got.Dictionary()
		text := func(i int32) string { return dict.StringTable().At(int(i)) }
		r := got.ResourceProfiles().At(0)
		for key, want := range map[string]string{"service.name": "shop", "deployment.environment.name": "prod", "container.id": strings.Repeat("ab", 32), "process.pid": "4242", "service.instance.id": "r-1", "team": "blue", "process.executable.name": "puma"} {
			if v, ok := r.Resource().Attributes().Get(key); !ok || v.AsString() != want {
				t.Errorf("%s: resource %s is %q, want %q", to, key, v.AsString(), want)
			}
		}
		scope := r.ScopeProfiles().At(0)
		if scope.Scope().Name() != "github.com/ddtop/ddtop" || scope.Scope().Version() != "0.1.0" {
			t.Errorf("%s: scope %q %q", to, scope.Scope().Name(), scope.Scope().Version())
		}
		ids := make(map[string]bool)
		for n, want := range []struct {
			name   string
			values []int64
		}{{"wall-time", []int64{60e9, 2}}, {"gvl-wait", []int64{7e9, 10}}} {
			p := scope.Profiles().At(n)
			id := p.ProfileID()
			ids[hex.EncodeToString(id[:])] = true
			if text(p.SampleType().TypeStrindex()) != want.name || text(p.SampleType().UnitStrindex()) != "nanoseconds" || text(p.PeriodType().TypeStrindex()) != "wall-time" || p.Period() != 10e6 {
				t.Errorf("%s: profile %d is of %s", to, n, text(p.SampleType().TypeStrindex()))
			}
			if p.Time().AsTime() != told(t).From || p.DurationNano() != 60e9 {
				t.Errorf("%s: at %v, for %d ns", to, p.Time().AsTime(), p.DurationNano())
			}
			var values []int64
			for _, s := range p.Samples().All() {
				values = append(values, s.Values().AsRaw()...)
			}
			if !slices.Equal(values, want.values) {
				t.Errorf("%s: %s has %v, want %v", to, want.name, values, want.values)
			}
			for at, s := range p.Samples().All() {
				a := attributes(dict, s.AttributeIndices())
				for key, want := range map[string]string{"thread.id": "4253", "ddtop.thread": "3", "thread.name": "worker", "ddtop.state": "running", "ddtop.endpoint": "GET orders#index", "ddtop.ractor": "1"} {
					if a[key] != want {
						t.Errorf("%s: %s is %q, want %q", to, key, a[key], want)
					}
				}
				trace, span := "", ""
				if s.LinkIndex() != 0 {
					l := dict.LinkTable().At(int(s.LinkIndex()))
					trace, span = l.TraceID().String(), l.SpanID().String()
				}
				if wanted := at == 0; wanted != (trace == "0123456789abcdef0123456789abcdef" && span == "fffffffffffffffe") || !wanted && trace != "" {
					t.Errorf("%s: sample %d is of span %q of %q", to, at, span, trace)
				}
				l := dict.LocationTable().At(int(dict.StackTable().At(int(s.StackIndex())).LocationIndices().At(0)))
				line := l.Lines().At(0)
				f := dict.FunctionTable().At(int(line.FunctionIndex()))
				where := fmt.Sprintf("%s %s:%d of %s, %s", text(f.NameStrindex()), text(f.FilenameStrindex()), line.Line(), text(dict.MappingTable().At(int(l.MappingIndex())).FilenameStrindex()), attributes(dict, l.AttributeIndices())["profile.frame.type"])
				if where != "Order#total /gems/rack-2.2.7/lib/rack.rb:7 of gem rack 2.2.7, ruby" {
					t.Errorf("%s: it is in %s", to, where)
				}
			}
		}
		if scope.Profiles().Len() != 2 || len(ids) != 2 {
			t.Errorf("%s: %d profiles with %d IDs", to, scope.Profiles().Len(), len(ids))
		}
		for name, length := range map[string]int{"mapping": dict.MappingTable().Len(), "location": dict.LocationTable().Len(), "function": dict.FunctionTable().Len(), "link": dict.LinkTable().Len(), "stack": dict.StackTable().Len()} {
			if length != 2 {
				t.Errorf("%s: %d of table %s, want one that stands for none, and one", to, length, name)
			}
		}
	}
}

// partialServer answers each request with what OTLP calls a partial success: it accepted only a part of the request, or
// it accepted all and adds a remark.
type partialServer struct {
	pprofileotlp.UnimplementedGRPCServer
	answer pprofileotlp.ExportResponse
}

// Export is the only procedure of the gRPC service. It ignores the request and returns the prepared answer.
func (s *partialServer) Export(context.Context, pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	return s.answer, nil
}

// ServeHTTP gives the same answer by HTTP.
func (s *partialServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	b, err := s.answer.MarshalProto()
	if err != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(b) // if this fails, the client notices it
}

// TestOTLPPartial: if a server rejects a part of a profile, ddtop does not send the profile again. If the server
// accepts the whole profile and only adds a remark, this is no failure. ddtop's messages about both cases do not
// contain the secret key of the request.
func TestOTLPPartial(t *testing.T) {
	for _, c := range []struct {
		rejected int64
		message  string
		refused  bool
		says     string
	}{{2, "too old, hunter2", true, `it has not taken 2 of the sample types of a profile: "too old, [secret]"`}, {0, "next year with another name", false, "next year"}, {0, "", false, ""}} {
		s := &partialServer{answer: pprofileotlp.NewExportResponse()}
		s.answer.PartialSuccess().SetRejectedProfiles(c.rejected)
		s.answer.PartialSuccess().SetErrorMessage(c.message)
		overHTTP := httptest.NewServer(s)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		overGRPC := grpc.NewServer()
		pprofileotlp.RegisterGRPCServer(overGRPC, s)
		go func() { _ = overGRPC.Serve(l) }() // returns when the server is stopped
		for _, to := range []string{"otlp+" + overHTTP.URL, "otlp+grpc://" + l.Addr().String()} {
			err := send(t, otlpAt(t, to), told(t))
			var refused *push.RefusedError
			var remark *push.RemarkError
			if errors.As(err, &refused) != c.refused || errors.As(err, &remark) != (!c.refused && c.says != "") || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", to, err)
			}
		}
		overGRPC.Stop()
		overHTTP.Close()
	}
}

// TestOTLPWithoutProfiles: if a gRPC server does not offer the service for profiles, ddtop reports a refusal. The error
// names the setting of the server that is missing.
func TestOTLPWithoutProfiles(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	go func() { _ = s.Serve(l) }() // returns when the server is stopped
	defer s.Stop()
	err = send(t, otlpAt(t, "otlp+grpc://"+l.Addr().String()), told(t))
	if !errors.As(err, new(*push.RefusedError)) || !strings.Contains(err.Error(), "UNIMPLEMENTED") || !strings.Contains(err.Error(), "service.profilesSupport") {
		t.Error(err)
	}
}

// TestOTLPRefuses: the answer of OpenTelemetry's receiver decides whether ddtop sends the profile again, and after how
// long.
func TestOTLPRefuses(t *testing.T) {
	c := startCollector(t)
	busy, err := status.New(codes.ResourceExhausted, "too many").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7500 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		err error
		// http and grpc are true if ddtop must treat the answer as a refusal: http if ddtop sends by HTTP, and grpc if
		// it sends by gRPC.
		http, grpc bool
		after      time.Duration // by HTTP, the answer has only whole seconds
		says       string
	}{
		{errors.New("starting"), false, false, 0, "starting"},
		{consumererror.NewPermanent(errors.New("never")), true, true, 0, "never"},
		{status.Error(codes.InvalidArgument, "what is ä hunter2?"), true, true, 0, "what is ä [secret]?"},
		{status.Error(codes.Unimplemented, "no"), true, true, 0, "service.profilesSupport"},
		{status.Error(codes.Unauthenticated, "who?"), true, true, 0, "OTEL_EXPORTER_OTLP_HEADERS"},
		{status.Error(codes.PermissionDenied, "you?"), true, true, 0, "OTEL_EXPORTER_OTLP_HEADERS"},
		{status.Error(codes.ResourceExhausted, "too large"), false, true, 0, "too large"},
		{busy.Err(), false, false, 7500 * time.Millisecond, "too many"},
		{status.Error(codes.Unavailable, "soon"), false, false, 0, "soon"},
		{status.Error(codes.DeadlineExceeded, "slow"), false, false, 0, "slow"},
		{status.Error(codes.Internal, strings.Repeat("x", 5000)), true, true, 0, "xxx"},
	} {
		c.set(v.err)
		for _, to := range []string{c.http, c.grpc} {
			d := otlpAt(t, to)
			want, after := v.http, v.after.Truncate(time.Second)
			if to == c.grpc {
				want, after = v.grpc, v.after
			}
			err := send(t, d, told(t))
			var refused *push.RefusedError
			var later *push.LaterError
			if err == nil || errors.As(err, &refused) != want || errors.As(err, &later) != (after > 0) || later != nil && later.After != after || !strings.Contains(err.Error(), v.says) || strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 600 {
				t.Errorf("%s, %.40v: %v (refused: %v)", to, v.err, err, refused != nil)
			}
		}
	}
	c.set(nil)
	for _, to := range []string{c.http, c.grpc} {
		if err := send(t, otlpAt(t, to), told(t)); err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
}
