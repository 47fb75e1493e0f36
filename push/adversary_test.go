package push_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/datadog"
	"github.com/ddtop/ddtop/push/spool"
)

// patience limits how long a test waits for a condition before it fails. Even the slowest machine needs less.
const patience = 5 * time.Minute

// agent is a stand-in for Datadog's agent. It answers each connection in the way that the test wants. It reads and
// writes HTTP itself, so that it can do what no real server does.
type agent struct {
	t        *testing.T
	listener net.Listener
	to       string

	mu    sync.Mutex
	does  func(c net.Conn) // answers a request; if it is nil, the agent answers that it has accepted the payload
	takes bool             // the agent counts a payload as accepted even if the field does is not nil
	took  []string
	tries int
	open  map[net.Conn]bool
}

func startAgent(t *testing.T, network string) *agent {
	t.Helper()
	a := &agent{t: t, open: make(map[net.Conn]bool)}
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "apm.socket")
	}
	var err error
	if a.listener, err = net.Listen(network, address); err != nil {
		t.Fatal(err)
	}
	a.to = "datadog://" + a.listener.Addr().String()
	if network == "unix" {
		a.to = "unix://" + address
	}
	go func() {
		for {
			c, err := a.listener.Accept()
			if err != nil {
				return
			}
			a.mu.Lock()
			a.open[c] = true
			a.mu.Unlock()
			go a.serve(c)
		}
	}()
	t.Cleanup(func() {
		a.listener.Close()
		a.heal()
	})
	return a
}

// heal makes the agent accept everything from now on. It closes all open connections, even those that hang.
func (a *agent) heal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.does = nil
	for c := range a.open {
		c.Close()
		delete(a.open, c)
	}
}

func (a *agent) serve(c net.Conn) {
	defer func() {
		a.mu.Lock()
		delete(a.open, c)
		a.mu.Unlock()
		c.Close()
	}()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		seq, err := sequence(req)
		a.mu.Lock()
		does, open := a.does, a.open[c]
		if a.tries++; err == nil && open && (does == nil || a.takes) {
			a.took = append(a.took, seq)
		}
		a.mu.Unlock()
		switch {
		case err != nil || !open: // the request was incomplete, or heal has closed the connection
			return
		case does == nil:
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		default:
			does(c)
			return
		}
	}
}

func (a *agent) taken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.took)
}

func (a *agent) tried() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tries
}

// sequence reads a whole request and returns the sequence number of the profile that it uploads.
func sequence(req *http.Request) (seq string, err error) {
	_, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return "", err
	}
	parts := multipart.NewReader(req.Body, params["boundary"])
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, req.Body)
			return seq, err
		}
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(part)
		if err != nil {
			return "", err
		}
		if part.FileName() == "event.json" {
			var event struct {
				Tags string `json:"tags_profiler"`
			}
			if err := json.Unmarshal(b, &event); err != nil {
				return "", err
			}
			_, seq, _ = strings.Cut(event.Tags, "profile_seq:")
		}
	}
}

func (a *agent) route(t *testing.T, limits spool.Limits) push.Route {
	t.Helper()
	u, err := url.Parse(a.to)
	if err != nil {
		t.Fatal(err)
	}
	d, err := datadog.New(u, "", "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	q, err := spool.Open(t.TempDir(), limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return push.Route{Destination: d, Queue: q}
}

// numbered returns a made-up profile of a process, with the sequence number n.
func numbered(t *testing.T, n int) *push.Period {
	t.Helper()
	var b bytes.Buffer
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "wall-time", Unit: "nanoseconds"}}, Comments: []string{strings.Repeat("x", 10_000)}}
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 11, 23, 8, n, 0, 0, time.UTC)
	return &push.Period{Process: push.Process{PID: 17, Title: "puma"}, From: from, To: from.Add(time.Minute), Seq: n, Pprof: b.Bytes()}
}

func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// TestAdversaries: one destination misbehaves, on a TCP port or on a unix socket. Meanwhile another destination still
// gets every payload. When the bad destination works again, it gets the payloads that it did not accept, each once and
// in order. ddtop drops and counts a payload that the destination refuses for good.
func TestAdversaries(t *testing.T) {
	say := func(text string) func(net.Conn) {
		// an error is allowed: the client may have closed the connection after a part of the text
		return func(c net.Conn) { _, _ = io.WriteString(c, text) }
	}
	endless := func(head, part string) func(net.Conn) {
		return func(c net.Conn) {
			_, err := io.WriteString(c, head)
			for err == nil {
				_, err = io.WriteString(c, part)
			}
		}
	}
	for _, c := range []struct {
		name string
		does func(net.Conn)
		// refuses is true if the answer means that the agent will never accept this payload. takes is true if the
		// answer means that the agent has accepted the payload.
		refuses, takes bool
	}{
		{"says 500", say("HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\npanic"), false, false},
		{"says 429", say("HTTP/1.1 429 Later\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"), false, false},
		{"hangs", func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, false, false},
		{"hangs up", say(""), false, false},
		{"is no HTTP", say("220 mail.example ESMTP\r\n"), false, false},
		{"ends in the head", say("HTTP/1.1 200 OK\r\nContent-"), false, false},
		{"ends in an error's body", say("HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\nsho"), false, false},
		{"has an endless head", endless("HTTP/1.1 200", " OK\r\nX: y"), false, false},
		{"has an endless error", endless("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n"), false, false},
		{"takes it with an endless answer", endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1000\r\n"+strings.Repeat("x", 0x1000)+"\r\n"), false, true},
		{"takes it with a page", say("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"), false, true},
		{"redirects", say("HTTP/1.1 307 There\r\nLocation: http://192.0.2.1/profiling/v1/input\r\nContent-Length: 0\r\n\r\n"), true, false},
		{"refuses", say("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"), true, false},
	} {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(c.name+" by "+network, func(t *testing.T) {
				t.Parallel()
				bad, good := startAgent(t, network), startAgent(t, network)
				bad.does, bad.takes = c.does, c.takes
				room := spool.Limits{Bytes: 10 << 20, Count: 100}
				p := push.New([]push.Route{bad.route(t, room), good.route(t, room)}, slog.New(slog.DiscardHandler))
				const n = 5
				var want []string
				for i := range n {
					p.Add(numbered(t, i))
					want = append(want, fmt.Sprint(i))
				}
				await(t, "all at the other destination", func() bool { return len(good.taken()) == n })
				await(t, "a try at the bad one", func() bool { return bad.tried() > 0 })
				switch {
				case c.refuses:
					await(t, "all to be refused", func() bool { return p.Stats()[0].Refused == n })
				case !c.takes && c.name != "hangs":
					await(t, "a failure", func() bool { return p.Stats()[0].Failures > 0 })
				}
				bad.heal()
				p.Add(numbered(t, n))
				want = append(want, fmt.Sprint(n))
				await(t, "the rest", func() bool {
					s := p.Stats()
					return s[0].Sent+s[0].Refused == n+1 && s[1].Sent == n+1 && s[0].Spool.Count == 0
				})
				p.Close(t.Context())
				if got := good.taken(); !slices.Equal(got, want) {
					t.Errorf("the other destination took %v", got)
				}
				if c.refuses {
					want = want[n:]
				}
				got := bad.taken()
				if c.takes {
					// the function heal may cut off the answer to a payload, so that ddtop sends this payload again
					got = slices.Compact(got)
				}
				if !slices.Equal(got, want) {
					t.Errorf("it took %v, want %v", got, want)
				}
			})
		}
	}
}

// TestOutageInRestarts: one run of ddtop cannot send its profiles. A later run sends them before its own profiles, each
// once and in order.
func TestOutageInRestarts(t *testing.T) {
	a := startAgent(t, "tcp")
	a.does = func(net.Conn) {}
	u, err := url.Parse(a.to)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var want []string
	for run := range 4 {
		d, err := datadog.New(u, "", "0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		q, err := spool.Open(dir, spool.Limits{Bytes: 10 << 20, Count: 100})
		if err != nil {
			t.Fatal(err)
		}
		if run == 3 {
			a.heal()
		}
		p := push.New([]push.Route{{Destination: d, Queue: q}}, slog.New(slog.DiscardHandler))
		for i := range 3 {
			n := 3*run + i
			p.Add(numbered(t, n))
			want = append(want, fmt.Sprint(n))
		}
		p.Close(t.Context())
		if s := p.Stats()[0]; s.Lost != 0 || s.Spool.Dropped != 0 {
			t.Errorf("run %d: %+v", run, s)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.taken(); !slices.Equal(got, want) {
		t.Errorf("it took %v", got)
	}
}
