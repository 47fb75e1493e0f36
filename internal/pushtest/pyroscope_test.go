package pushtest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/pyroscope"
)

// pyroscopeServer is a server made from the code that is generated for Pyroscope's API. It keeps what it receives.
type pyroscopeServer struct {
	*httptest.Server
	mu  sync.Mutex
	err error
	got []*pushv1.PushRequest
	// header has the HTTP header of the last request.
	header http.Header
}

func startPyroscope(t *testing.T) *pyroscopeServer {
	s := new(pyroscopeServer)
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(s))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// Push is the only procedure of the service. It keeps the request.
func (s *pyroscopeServer) Push(_ context.Context, r *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header = r.Header().Clone()
	if s.err != nil {
		return nil, s.err
	}
	s.got = append(s.got, r.Msg)
	return connect.NewResponse(new(pushv1.PushResponse)), nil
}

func (s *pyroscopeServer) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// requests returns the requests that the server has accepted so far.
func (s *pyroscopeServer) requests() []*pushv1.PushRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// url returns the server's URL in the form that ddtop push needs for a destination.
func (s *pyroscopeServer) url() string { return "pyroscope+" + s.URL }

func pyroscopeAt(t *testing.T, text string, access pyroscope.Access) *pyroscope.Server {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := pyroscope.New(u, access, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// send encodes the profile of a period for a destination and sends it.
func send(t *testing.T, d push.Destination, p *push.Period) error {
	t.Helper()
	payload, err := d.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	return d.Send(t.Context(), &payload)
}

// TestPyroscope: Pyroscope receives the profile unchanged, with its labels. It also receives the user name, the
// password and the tenant.
func TestPyroscope(t *testing.T) {
	s, p := startPyroscope(t), period(t, 3)
	d := pyroscopeAt(t, strings.Replace(s.url(), "://", "://me:hunter2@", 1), pyroscope.Access{Tenant: "shop"})
	if err := send(t, d, p); err != nil {
		t.Fatal(err)
	}
	series := s.requests()[0].Series
	if len(series) != 1 || len(series[0].Samples) != 1 {
		t.Fatalf("it got %v", s.requests()[0])
	}
	got, err := profile.ParseData(series[0].Samples[0].RawProfile)
	if err != nil || got.CheckValid() != nil || !slices.Equal(series[0].Samples[0].RawProfile, p.Pprof) {
		t.Errorf("the profile: %v, %v", err, got)
	}
	if id := series[0].Samples[0].ID; id != p.ID() || len(id) != 36 {
		t.Errorf("the profile's ID is %q, want %q", id, p.ID())
	}
	labels := make(map[string]string)
	for _, l := range series[0].Labels {
		labels[l.Name] = l.Value
	}
	for name, want := range map[string]string{"__name__": "ruby", "service_name": "shop", "env": "prod", "container_id": strings.Repeat("ab", 32), "pyroscope_spy": "ddtop"} {
		if labels[name] != want {
			t.Errorf("label %s is %q, want %q", name, labels[name], want)
		}
	}
	user, password, _ := (&http.Request{Header: s.header}).BasicAuth()
	if user != "me" || password != "hunter2" || s.header.Get("X-Scope-OrgID") != "shop" {
		t.Errorf("it was sent by %q with %q for %q", user, password, s.header.Get("X-Scope-OrgID"))
	}
	if strings.Contains(d.String(), "hunter2") {
		t.Errorf("it is called %s", d)
	}
}

// TestPyroscopeRefuses: Pyroscope's answer decides whether ddtop sends the profile again, and after how long.
func TestPyroscopeRefuses(t *testing.T) {
	s, p := startPyroscope(t), period(t, 0)
	d := pyroscopeAt(t, s.url(), pyroscope.Access{User: "me", Password: "hunter2"})
	later := connect.NewError(connect.CodeResourceExhausted, errors.New("too many"))
	later.Meta().Set("Retry-After", "7")
	for _, c := range []struct {
		err     error
		refused bool
		after   time.Duration
		says    string
	}{
		{connect.NewError(connect.CodeInvalidArgument, errors.New("no labels")), true, 0, "no labels"},
		{connect.NewError(connect.CodeUnauthenticated, errors.New("who is hunter2?")), true, 0, "PYROSCOPE_BASIC_AUTH_USER"},
		{connect.NewError(connect.CodeUnimplemented, errors.New("never heard of it")), true, 0, "is it Pyroscope?"},
		{connect.NewError(connect.CodeUnavailable, errors.New("starting")), false, 0, "starting"},
		{connect.NewError(connect.CodeInternal, errors.New("oh no")), false, 0, "oh no"},
		{later, false, 7 * time.Second, "too many"},
	} {
		s.set(c.err)
		err := send(t, d, p)
		var refused *push.RefusedError
		var wait *push.LaterError
		if err == nil || errors.As(err, &refused) != c.refused || errors.As(err, &wait) != (c.after > 0) || wait != nil && wait.After != c.after || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	s.set(nil)
	if err := send(t, d, p); err != nil {
		t.Error(err)
	}
}
