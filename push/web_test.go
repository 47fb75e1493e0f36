package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAnswers: a server's answer decides what happens to a payload. ddtop counts it as sent, sends it again, or drops
// it as refused.
func TestAnswers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") }))
	defer other.Close()
	const fine, again, refused = "fine", "again", "refused"
	for _, c := range []struct {
		name   string
		status int
		header []string
		body   string
		want   string
		after  time.Duration
		says   string
	}{
		{"ok", 200, nil, "thanks", fine, 0, ""},
		{"accepted", 202, nil, "", fine, 0, ""},
		{"a page of megabytes", 200, nil, strings.Repeat("x", 5<<20), fine, 0, ""},
		{"bad request", 400, nil, "no such field", refused, 0, `HTTP status 400: "no such field"`},
		{"forbidden", 403, nil, "", refused, 0, "403"},
		{"not found", 404, nil, strings.Repeat("x", 1<<20), refused, 0, "404"},
		{"too large", 413, nil, "", refused, 0, "413"},
		{"timeout", 408, nil, "", again, 0, "408"},
		{"too many", 429, []string{"Retry-After", "120"}, "", again, 2 * time.Minute, "429"},
		{"broken", 500, nil, "panic", again, 0, `500: "panic"`},
		{"busy", 503, []string{"Retry-After", "99999999999"}, "", again, time.Hour, "503"},
		{"busy for long", 503, []string{"Retry-After", "86400"}, "", again, time.Hour, "503"},
		{"elsewhere", 307, []string{"Location", other.URL + "/x"}, "", refused, 0, "not followed"},
		{"elsewhere as GET", 302, []string{"Location", "/fine"}, "", refused, 0, "not followed"},
		{"here", 307, []string{"Location", "/fine"}, "", fine, 0, ""},
		{"round and round", 308, []string{"Location", "/"}, "", refused, 0, "not followed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if b, err := io.ReadAll(r.Body); err != nil || string(b) != "profile" || r.Method != http.MethodPost {
					t.Errorf("%s with %q, %v", r.Method, b, err)
				}
				if r.URL.Path == "/fine" {
					return
				}
				for i := 0; i < len(c.header); i += 2 {
					w.Header().Set(c.header[i], c.header[i+1])
				}
				w.WriteHeader(c.status)
				// an error is allowed: the client may have closed the connection after a part of the body
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			_, err := NewWeb("").Post(t.Context(), s.URL, http.Header{}, []byte("profile"))
			var r *RefusedError
			var later *LaterError
			got := again
			switch {
			case err == nil:
				got = fine
			case errors.As(err, &r):
				got = refused
			}
			if got != c.want || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s (%v), want %s", got, err, c.want)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("it says %d bytes", len(err.Error()))
			}
			if errors.As(err, &later) != (c.after != 0) || later != nil && later.After != c.after {
				t.Errorf("%+v, want %v", later, c.after)
			}
		})
	}
}

func TestRetryAfterDate(t *testing.T) {
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{"Mon, 23 Nov 2026 08:05:00 GMT": 5 * time.Minute, "Mon, 23 Nov 2026 07:00:00 GMT": 0, "soon": 0, "-5": 0, "": 0} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestServersThatAreNone: a server does not speak HTTP, never answers or closes the connection. The error is not final,
// so ddtop tries again later.
func TestServersThatAreNone(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"hangs up": func(c net.Conn) { c.Close() },
		"speaks something else": func(c net.Conn) {
			_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
			c.Close()
		},
		"promises more": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
			c.Close()
		},
		"never answers": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					defer c.Close()
					buf := make([]byte, 10)
					_, _ = c.Read(buf)
					serve(c)
					if name == "never answers" {
						cancel()
					}
				}
			}()
			_, err = NewWeb("").Post(ctx, "http://"+l.Addr().String(), http.Header{}, []byte("profile"))
			if err == nil || errors.As(err, new(*RefusedError)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apm.socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "by "+r.Host)
	})}}
	s.Start()
	defer s.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // ddtop must not use this proxy
	got, err := NewWeb(path).Post(t.Context(), "http://unix/profiling", http.Header{}, nil)
	if err != nil || string(got) != "by unix" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTLS: if the certificate of a server cannot be verified, ddtop sends nothing to it.
func TestTLS(t *testing.T) {
	asked := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the server reports that its certificate was refused
	s.StartTLS()
	defer s.Close()
	_, err := NewWeb("").Post(t.Context(), s.URL, http.Header{}, []byte("profile"))
	if err == nil || !strings.Contains(err.Error(), "certificate") || asked {
		t.Errorf("%v; asked: %v", err, asked)
	}
}

func TestParseTag(t *testing.T) {
	for text, want := range map[string]Tag{"service:shop": {"service", "shop"}, "git.repository_url:https://x/y:z": {"git.repository_url", "https://x/y:z"}} {
		if got, err := ParseTag(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", ":b", "a:", "a b:c", "a:b,c", "a:b\nc", "a:" + strings.Repeat("x", 300)} {
		if got, err := ParseTag(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	tags := Tags{}.With("a", "1").With("a", "2").With("b", "")
	if len(tags) != 1 || tags.Get("a") != "1" {
		t.Errorf("tags %v", tags)
	}
}

// TestSecretsInAnswers: if a server repeats the request in its answer or in a redirect, no key gets into the error.
func TestSecretsInAnswers(t *testing.T) {
	for _, status := range []int{403, 500, 302} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, password, _ := r.BasicAuth()
			said := strings.Repeat("x", 150) + r.Header.Get("DD-API-KEY") + password + r.Header.Get("Authorization")
			w.Header().Set("Location", "http://elsewhere.example/"+said)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, said)
		}))
		header := http.Header{"User-Agent": {"ddtop"}}
		header.Set("DD-API-KEY", "0123456789abcdef0123456789abcdef")
		header.Set("Authorization", BasicAuth("shop", "hunter2hunter2"))
		_, err := NewWeb("").Post(t.Context(), s.URL, header, []byte("profile"))
		s.Close()
		if err == nil || !strings.Contains(err.Error(), concealed) || len(err.Error()) > 600 {
			t.Fatalf("%d: %v", status, err)
		}
		for _, secret := range []string{"012345", "hunter", "Basic", "c2hvcDpodW50ZXIy"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%d: %q is in %v", status, secret, err)
			}
		}
	}
}

// TestSecretsInAnswersOfProxies: if a proxy repeats the request in its answer, the proxy's password does not get into
// the error.
func TestSecretsInAnswersOfProxies(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
			said := r.Header.Get("Proxy-Authorization") + " is no key, nor is " + password
			_, _ = fmt.Fprintf(c, "HTTP/1.1 407 %s\r\n\r\n%s", said, said)
			c.Close()
		}
	}))
	defer proxy.Close()
	w := NewWeb("")
	w.client.Transport.(*http.Transport).Proxy = func(*http.Request) (*url.URL, error) {
		return &url.URL{Scheme: "http", Host: proxy.Listener.Addr().String(), User: url.UserPassword("shop", "hunter2")}, nil
	}
	for _, to := range []string{"https://hooks.example/", "http://hooks.example/"} {
		_, err := w.Post(t.Context(), to, http.Header{}, []byte("profile"))
		text := fmt.Sprint(err)
		if !strings.Contains(text, "is no key") || strings.Contains(text, "hunter") || strings.Contains(text, "c2hv") {
			t.Errorf("%s: got %s", to, text)
		}
	}
}
