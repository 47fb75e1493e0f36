package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/spool"
)

const secretPath = "/services/T00012/B00012/hunter2hunter2"

func webhook(t *testing.T, scheme, host string) *Webhook {
	t.Helper()
	u, err := url.Parse(scheme + "://" + host + secretPath)
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewWebhook(u, "Authorization=Bearer%20hunter3", "0.1")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func message() *Message {
	return &Message{ID: "x", Event: Start, Rule: "deadlock", Severity: "crit", Title: "Deadlock", Text: "thread <1> & @here", Service: "shop", PID: 7,
		Program: "puma", Processes: 3, Followed: 4, Since: time.Unix(1e9, 0).UTC()}
}

// TestWebhookBodies: a webhook gets the message as JSON, with the headers that the user set. Slack gets a text without
// these headers. A name in the text must not notify users of Slack, so characters such as "<" are escaped.
func TestWebhookBodies(t *testing.T) {
	type request struct {
		path, auth string
		body       map[string]any
	}
	var got []request
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		x := request{path: r.URL.Path, auth: r.Header.Get("Authorization")}
		if err := json.NewDecoder(r.Body).Decode(&x.body); err != nil {
			t.Error(err)
		}
		got = append(got, x)
	}))
	defer s.Close()
	for _, scheme := range []string{"http", "slack+http"} {
		d := webhook(t, scheme, s.Listener.Addr().String())
		payload, err := d.EncodeAlert(message())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Send(t.Context(), &payload); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(d.String(), "hunter2") {
			t.Errorf("its name has the secret: %s", d)
		}
	}
	if x := got[0]; x.path != secretPath || x.auth != "Bearer hunter3" || x.body["rule"] != "deadlock" || x.body["event"] != "start" || x.body["processes"] != 3.0 ||
		x.body["since"] != "2001-09-09T01:46:40Z" || x.body["text"] != "thread <1> & @here" {
		t.Errorf("%+v", x)
	}
	if x := got[1]; x.path != secretPath || x.auth != "" || len(x.body) != 1 ||
		!strings.Contains(x.body["text"].(string), "*[crit] shop: Deadlock*\nthread &lt;1&gt; &amp; @here\n3 of 4 processes have it, the worst is pid 7 (puma).") {
		t.Errorf("%+v", x)
	}
}

// TestWebhookURLs: NewWebhook refuses URLs that cannot belong to a webhook. The error does not contain secrets from the
// URL.
func TestWebhookURLs(t *testing.T) {
	for _, text := range []string{"ftp://x/hunter2", "https:///hunter2", "https://user:hunter2@x/", "slack+ftp://x/hunter2", "mailto:hunter2"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewWebhook(u, "", ""); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
	u, _ := url.Parse("https://x/")
	if _, err := NewWebhook(u, "hunter2", ""); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("headers: %v", err)
	}
}

// raw returns a handler that sends the text answer unchanged, even if this is not valid HTTP. In this text, PATH stands
// for the request's path, and AUTH for its Authorization header.
func raw(answer string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_, _ = strings.NewReplacer("PATH", r.URL.Path, "AUTH", r.Header.Get("Authorization")).WriteString(c, answer)
			c.Close()
		}
	}
}

// TestWebhookTellsNoSecret: a server may repeat the request in its answer. ddtop's error must not contain the path or a
// header, even if the answer is cut off in the middle. ddtop follows no redirect.
func TestWebhookTellsNoSecret(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		final  bool
	}{
		{"redirect to itself", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusPermanentRedirect)
		}, true},
		{"redirect elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1"+r.URL.Path+"?"+r.Header.Get("Authorization"), http.StatusTemporaryRedirect)
		}, true},
		{"repeats", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, strings.Repeat("x", 170)+r.URL.Path+" "+r.Header.Get("Authorization"), http.StatusForbidden)
		}, true},
		{"repeats and is busy", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.URL.Path+" "+r.Header.Get("Authorization"), http.StatusServiceUnavailable)
		}, false},
		{"repeats the last part", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no such hook: "+path.Base(r.URL.Path), http.StatusForbidden)
		}, true},
		{"redirect to a login", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/?next="+url.QueryEscape(r.URL.Path), http.StatusTemporaryRedirect)
		}, true},
		{"redirect to no URL", raw("HTTP/1.1 302 Found\r\nLocation: http://[::1PATH\r\n\r\n"), false},
		{"echo", raw("POST PATH HTTP/1.1\r\nAuthorization: AUTH\r\n\r\n"), false},
		{"no header", raw("HTTP/1.1 200 OK\r\nPATH AUTH\r\n\r\n"), false},
		{"a long line", raw(strings.Repeat("x", 3000) + "\r\n"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				c.answer(w, r)
			}))
			defer s.Close()
			d := webhook(t, "http", s.Listener.Addr().String())
			err := d.Send(t.Context(), &push.Payload{Body: []byte("{}")})
			var refused *push.RefusedError
			if err == nil || errors.As(err, &refused) != c.final || asked != 1 {
				t.Errorf("asked %d times: %v", asked, err)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "hunter") || strings.Contains(text, "T000") || len(text) > 400 {
				t.Errorf("it tells a secret, or much: %s", text)
			}
		})
	}
}

// TestBadDestinationsDelayNobody: some destinations hang, close the connection, refuse messages or do not exist. They
// must not delay messages to other destinations. The figures count the messages that each destination has not accepted.
func TestBadDestinationsDelayNobody(t *testing.T) {
	release := make(chan struct{})
	server := func(answer http.HandlerFunc) string {
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	var mu sync.Mutex
	var got []string
	good := server(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(b))
	})
	hangs := server(func(http.ResponseWriter, *http.Request) { <-release })
	refuses := server(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	hangsUp := server(func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			c.Close()
		}
	})
	t.Cleanup(func() { close(release) }) // runs before the servers are closed, because closing waits for their handlers
	var routes []push.Route
	for _, host := range []string{hangs, refuses, hangsUp, nobody.Addr().String(), good} {
		routes = append(routes, push.Route{Destination: webhook(t, "http", host), Queue: spool.InMemory(spool.Limits{Bytes: 1 << 20, Count: 100})})
	}
	var log strings.Builder
	p := push.NewOf(push.Alerts, routes, slog.New(slog.NewTextHandler(&log, nil)))
	const messages = 3
	for range messages {
		Send(p, message())
	}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		s := p.Stats()
		if s[4].Sent == messages && s[1].Refused == messages && s[2].Failures > 0 && s[3].Failures > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	p.Close(ended)
	mu.Lock()
	defer mu.Unlock()
	if len(got) != messages {
		t.Errorf("%d messages arrived", len(got))
	}
	s := p.Stats()
	if s[0].Sent != 0 || s[0].Lost != messages || s[3].Lost != messages || s[1].Lost != 0 {
		t.Errorf("%+v", s)
	}
	if text := log.String(); strings.Contains(text, "hunter") || strings.Contains(text, "profile") || !strings.Contains(text, "an alert was refused") {
		t.Errorf("it said:\n%s", text)
	}
}

// TestAnswerWithoutEnd: ddtop counts a message as sent as soon as it receives a success status. It does not wait for
// the end of the answer. So a server whose answer never ends gets each message only once.
func TestAnswerWithoutEnd(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer s.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := webhook(t, "http", s.Listener.Addr().String()).Send(ctx, &push.Payload{Body: []byte("{}")}); err != nil {
		t.Error(err)
	}
}
