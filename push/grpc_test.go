package push

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/push/protobuf"
)

// h2 starts a server that speaks HTTP/2 without TLS, like a gRPC server, and returns its host and port.
func h2(t *testing.T, serve http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(serve)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestGRPCAnswers: Call returns the right error if an answer is not gRPC, is cut off, or has a bad status. It never
// follows a redirect.
func TestGRPCAnswers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") }))
	defer other.Close()
	details := func(seconds int64) string {
		info := protobuf.AppendBytes(nil, 1, protobuf.AppendInt(nil, 1, seconds))
		detail := protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, "type.googleapis.com/google.rpc.RetryInfo"), 2, info)
		return base64.StdEncoding.EncodeToString(protobuf.AppendBytes(nil, 3, detail))
	}
	for _, c := range []struct {
		name    string
		status  int
		header  []string
		body    string
		refused bool
		after   time.Duration
		says    string // empty if the call succeeds
	}{
		{"fine", 200, []string{"Trailer:Grpc-Status", "0"}, "\x00\x00\x00\x00\x00", false, 0, ""},
		{"a page", 200, []string{"Content-Type", "text/html"}, "<html>", false, 0, `no status of gRPC (its type is "text/html")`},
		{"a page of megabytes", 200, nil, strings.Repeat("x", 5<<20), false, 0, "no status"},
		{"cut off", 200, []string{"Trailer:Grpc-Status", "0"}, "\x00\x00\x00\x01\x00abc", false, 0, "cut off"},
		{"no message", 200, []string{"Trailer:Grpc-Status", "0"}, "", false, 0, "cut off"},
		{"no gzip", 200, []string{"Trailer:Grpc-Status", "0"}, "\x01\x00\x00\x00\x01x", false, 0, "reading the answer"},
		{"not found", 404, nil, "", true, 0, "404"},
		{"bad gateway", 502, nil, "oops", false, 0, `502: "oops"`},
		{"busy", 503, []string{"Retry-After", "9"}, "", false, 9 * time.Second, "503"},
		{"elsewhere", 307, []string{"Location", other.URL}, "", true, 0, "not followed"},
		{"here", 307, []string{"Location", "/other"}, "", true, 0, "not followed"},
		{"exhausted", 200, []string{"Grpc-Status", "8", "Grpc-Message", "a%20lot"}, "", true, 0, `RESOURCE_EXHAUSTED: "a lot"`},
		{"exhausted for a while", 200, []string{"Grpc-Status", "8", "Grpc-Status-Details-Bin", details(5)}, "", false, 5 * time.Second, "RESOURCE_EXHAUSTED"},
		{"exhausted for years", 200, []string{"Grpc-Status", "8", "Grpc-Status-Details-Bin", details(1 << 60)}, "", false, time.Hour, "RESOURCE_EXHAUSTED"},
		{"details of nothing", 200, []string{"Grpc-Status", "14", "Grpc-Status-Details-Bin", "AAAA"}, "", false, 0, "UNAVAILABLE"},
		{"an unknown code", 200, []string{"Grpc-Status", "77"}, "", true, 0, "code 77"},
		{"no code", 200, []string{"Grpc-Status", "x"}, "", false, 0, "no status"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := h2(t, func(w http.ResponseWriter, r *http.Request) {
				if b, err := io.ReadAll(r.Body); err != nil || string(b) != "\x01\x00\x00\x00\x07profile" || r.Header.Get("Te") != "trailers" || r.URL.Path != "/a.B/C" {
					t.Errorf("%s %v: %q, %v", r.URL, r.Header, b, err)
				}
				for i := 0; i < len(c.header); i += 2 {
					w.Header().Set(c.header[i], c.header[i+1])
				}
				w.WriteHeader(c.status)
				// an error is allowed: the client may have closed the connection after a part of the body
				_, _ = io.WriteString(w, c.body)
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := NewGRPC(false).Call(ctx, host, "/a.B/C", http.Header{"X-Key": {"hunter2"}}, []byte("profile"))
			var later *LaterError
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || errors.As(err, new(*RefusedError)) != c.refused ||
				errors.As(err, &later) != (c.after > 0) || later != nil && later.After != c.after {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestGRPCToHTTP1: if a server does not speak HTTP/2, the error is not final: ddtop tries again later.
func TestGRPCToHTTP1(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	_, err := NewGRPC(false).Call(t.Context(), s.Listener.Addr().String(), "/a.B/C", nil, nil)
	if err == nil || errors.As(err, new(*RefusedError)) {
		t.Error(err)
	}
}

// TestGRPCThroughProxy: a call without TLS asks the proxy for a tunnel to the server. If the proxy refuses, the error
// contains the proxy's status.
func TestGRPCThroughProxy(t *testing.T) {
	host := h2(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		_, _ = io.WriteString(w, "\x00\x00\x00\x00\x02hi") // if this write fails, the client reports an error
	})
	var asked atomic.Pointer[http.Request]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r)
		to, err := net.Dial("tcp", host)
		if err != nil {
			t.Error(err)
			return
		}
		from, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n") // if this write fails, the client reports an error
		go func() {
			_, _ = io.Copy(to, from) // copies until one of the connections ends
			to.Close()
		}()
		_, _ = io.Copy(from, to)
		from.Close()
	}))
	defer proxy.Close()
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("me", "hunter2")
	g := NewGRPC(false)
	g.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
		c, err := dialProxy(ctx, new(net.Dialer), u)
		if err != nil {
			return nil, err
		}
		return connectTunnel(ctx, c, u, address)
	}
	answer, err := g.Call(t.Context(), "collector.example:4317", "/a.B/C", nil, nil)
	if err != nil || string(answer) != "hi" {
		t.Fatalf("%q, %v", answer, err)
	}
	r := asked.Load()
	if r.Method != http.MethodConnect || r.Host != "collector.example:4317" || r.Header.Get("Proxy-Authorization") != BasicAuth("me", "hunter2") {
		t.Errorf("the proxy was asked %s %s, %v", r.Method, r.Host, r.Header)
	}
	g.client.CloseIdleConnections()
	for _, status := range []int{403, 407, 502} {
		refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		u, err := url.Parse(refusing.URL)
		if err != nil {
			t.Fatal(err)
		}
		c, err := dialProxy(t.Context(), new(net.Dialer), u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := connectTunnel(t.Context(), c, u, "x:1"); err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("%d: %v", status, err)
		}
		c.Close()
		refusing.Close()
	}
}

// TestGRPCTLS: if the certificate of a server cannot be verified, ddtop sends nothing to it.
func TestGRPCTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the server reports that its certificate was refused
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	_, err := NewGRPC(true).Call(t.Context(), s.Listener.Addr().String(), "/a.B/C", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}
