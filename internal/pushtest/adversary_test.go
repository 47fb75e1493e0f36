package pushtest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/pyroscope"
	"github.com/ddtop/ddtop/push/spool"
)

// adversary is a proxy between ddtop and a good server. It breaks the first connections. It forwards later connections
// to the server.
type adversary struct {
	net.Listener
	behind string // host:port of the good server
	how    string
	bad    atomic.Int32 // how many of the next connections the adversary still has to break
}

// startAdversary starts an adversary as a proxy of a server (behind). The adversary breaks the first two connections.
// The parameter how names the way in which it breaks them.
func startAdversary(t *testing.T, how, behind string) *adversary {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	a := &adversary{Listener: l, behind: behind, how: how}
	a.bad.Store(2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go a.serve(c)
		}
	}()
	return a
}

func (a *adversary) serve(c net.Conn) {
	defer c.Close()
	if a.bad.Add(-1) >= 0 {
		buf := make([]byte, 100)
		switch a.how {
		case "hangs up at once":
		case "is cut off while it is sent":
			_, _ = io.ReadFull(c, buf) // the client may send less
		case "answers what is no HTTP":
			_, _ = io.ReadFull(c, buf)
			_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n") // fails if the client has hung up
		case "promises more than it sends":
			_, _ = io.ReadFull(c, buf)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort") // fails if the client has hung up
		case "answers another page":
			_, _ = io.ReadFull(c, buf)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>log in</html>") // fails if the client has hung up
		case "is a gateway without a server":
			_, _ = io.ReadFull(c, buf)
			_, _ = io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n") // fails if the client has hung up
		}
		return
	}
	to, err := net.Dial("tcp", a.behind)
	if err != nil {
		return
	}
	defer to.Close()
	slow := func(w io.Writer, r io.Reader) {
		buf := make([]byte, 512)
		for {
			n, err := r.Read(buf)
			if _, werr := w.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}
	go slow(to, c)
	slow(c, to)
}

// TestAdversaries: for each kind of server, a proxy breaks the first connections. Each period's profile must still
// arrive later, in the right order. Meanwhile, a good server gets its profiles at once. A server that never answers
// does not delay the other servers.
func TestAdversaries(t *testing.T) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	for _, how := range []string{"hangs up at once", "is cut off while it is sent", "answers what is no HTTP", "promises more than it sends", "answers another page", "is a gateway without a server"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel() // the subtests wait most of the time
			pyro, otel, whole := startPyroscope(t), startCollector(t), startPyroscope(t)
			at := func(scheme, url string) string {
				_, host, _ := strings.Cut(url, "://")
				return scheme + "://" + startAdversary(t, how, host).Addr().String()
			}
			all := []push.Destination{
				pyroscopeAt(t, at("pyroscope+http", pyro.URL), pyroscope.Access{}), otlpAt(t, at("otlp+http", otel.http)), otlpAt(t, at("otlp+grpc", otel.grpc)),
				pyroscopeAt(t, whole.url(), pyroscope.Access{}), otlpAt(t, "otlp+grpc://"+hanging.Addr().String()),
			}
			var routes []push.Route
			for _, d := range all {
				routes = append(routes, push.Route{Destination: d, Queue: spool.InMemory(spool.Limits{Bytes: 1 << 20, Count: 100})})
			}
			p := push.New(routes, slog.New(slog.DiscardHandler))
			for seq := range 3 {
				p.Add(period(t, seq))
			}
			const dead = 4
			await := func(what string, so func([]push.Stats) bool) {
				t.Helper()
				for deadline := time.Now().Add(timeout); !so(p.Stats()); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("waited for %s: %+v", what, p.Stats())
					}
				}
			}
			await("the whole one", func(s []push.Stats) bool { return s[dead-1].Sent == 3 })
			await("all", func(all []push.Stats) bool {
				for i, s := range all {
					if i != dead && s.Sent < 3 {
						return false
					}
				}
				return true
			})
			for i, s := range p.Stats() {
				if i != dead && (s.Refused != 0 || s.Lost != 0) || i == dead && s.Sent != 0 {
					t.Errorf("%s: %+v", s.Destination, s)
				}
			}
			arrived(t, pyro, otel)
			ended, cancel := context.WithCancel(t.Context())
			cancel() // so that Close does not wait for unsent profiles
			p.Close(ended)
		})
	}
}

// TestServerErrors: if a server answers with status 503, ddtop's error must say so, for both protocols that use HTTP.
func TestServerErrors(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer s.Close()
	for _, d := range []push.Destination{pyroscopeAt(t, "pyroscope+"+s.URL, pyroscope.Access{}), otlpAt(t, "otlp+"+s.URL)} {
		if err := send(t, d, period(t, 0)); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("%s: %v", d, err)
		}
	}
}

// TestFullDisk: if the disk for unsent profiles (the spool) is full, the profiles for each destination stay in memory
// and still arrive.
func TestFullDisk(t *testing.T) {
	mount, err := exec.LookPath("mount")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs root, and mount of the package mount")
	}
	dir := t.TempDir()
	if out, err := exec.Command(mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no tmpfs here: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	pyro, otel := startPyroscope(t), startCollector(t)
	var routes []push.Route
	for i, d := range []push.Destination{pyroscopeAt(t, pyro.url(), pyroscope.Access{}), otlpAt(t, otel.http), otlpAt(t, otel.grpc)} {
		q, err := spool.Open(filepath.Join(dir, string(rune('a'+i))), spool.Limits{Bytes: 1 << 20, Count: 100})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		routes = append(routes, push.Route{Destination: d, Queue: q})
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(filler, strings.NewReader(strings.Repeat("x", 1<<20))); err == nil {
		t.Fatal("the disk is not full")
	}
	filler.Close()
	p := push.New(routes, slog.New(slog.DiscardHandler))
	for seq := range 3 {
		p.Add(period(t, seq))
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		s := p.Stats()
		if s[0].Sent == 3 && s[1].Sent == 3 && s[2].Sent == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for all to arrive: %+v", s)
		}
	}
	p.Close(t.Context())
	arrived(t, pyro, otel)
}

// arrived checks that the profiles of three periods have arrived: at Pyroscope, and at the OpenTelemetry collector by
// HTTP and by gRPC. On a busy machine, a server's answer can come too late. ddtop then sends the profile a second time,
// with the same ID.
func arrived(t *testing.T, pyro *pyroscopeServer, otel *collector) {
	t.Helper()
	atPyroscope, atCollector := make(map[string]bool), make(map[[16]byte]int)
	for _, r := range pyro.requests() {
		atPyroscope[r.Series[0].Samples[0].ID] = true
	}
	for _, r := range otel.requests() {
		atCollector[r.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).ProfileID()]++
	}
	if len(atPyroscope) != 3 || len(atCollector) != 3 {
		t.Errorf("%d periods are at Pyroscope, %d at the collector", len(atPyroscope), len(atCollector))
	}
	for id, n := range atCollector {
		if n < 2 {
			t.Errorf("%x came %d times", id, n)
		}
	}
}
