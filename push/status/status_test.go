package status

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
)

func TestParseAddress(t *testing.T) {
	for _, c := range []struct {
		text, address string
		loopback      bool
	}{
		{"9464", "127.0.0.1:9464", true}, {":9464", "127.0.0.1:9464", true}, {"localhost:9464", "localhost:9464", true}, {"127.0.0.1:0", "127.0.0.1:0", true},
		{"[::1]:9464", "[::1]:9464", true}, {"0.0.0.0:9464", "0.0.0.0:9464", false}, {"[::]:9464", "[::]:9464", false}, {"10.1.2.3:9464", "10.1.2.3:9464", false},
	} {
		address, loopback, err := ParseAddress(c.text)
		if err != nil || address != c.address || loopback != c.loopback {
			t.Errorf("%q: %q, %v, %v", c.text, address, loopback, err)
		}
	}
	for _, text := range []string{"", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:70000", "70000", "example.com:9464"} {
		if address, _, err := ParseAddress(text); err == nil {
			t.Errorf("%q: %q", text, address)
		}
	}
}

func figures() *Figures {
	return &Figures{Version: "0.1", CPUNS: 5e8, Processes: 2, Destinations: []push.Stats{{Destination: "file:///x", Sent: 3, LastError: "disk full\nok"}, {Destination: "datadog://y:8126"}}}
}

// serve starts a server of figures, and returns its address.
func serve(t *testing.T, loopback bool, f func() *Figures) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, loopback, f)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func get(t *testing.T, method, to, host string) (int, string) {
	req, err := http.NewRequestWithContext(t.Context(), method, to, nil)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	req.Host = host
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(b)
}

func TestServer(t *testing.T) {
	at := serve(t, true, figures)
	status, text := get(t, "GET", "http://"+at+"/metrics", "")
	if status != 200 || !strings.Contains(text, "ddtop_push_profiles_sent_total{to=\"file:///x\"} 3\n") {
		t.Errorf("%d: %s", status, text)
	}
	status, text = get(t, "GET", "http://"+at+"/healthz", "localhost:1")
	if want := "ok\nfollowing 2 processes\nfile:///x: failing: \"disk full\\nok\", 0 waiting\ndatadog://y:8126: nothing sent yet, 0 waiting\n"; status != 200 || text != want {
		t.Errorf("%d: %s", status, text)
	}
	for _, c := range []struct {
		method, path, host string
		want               int
	}{{"POST", "/metrics", "", 405}, {"GET", "/", "", 404}, {"GET", "/debug/pprof/", "", 404}, {"GET", "/metrics", "evil.example", 403}, {"GET", "/metrics", "evil.example:9464", 403}, {"GET", "/metrics", "127.0.0.1:9", 200}} {
		if status, text := get(t, c.method, "http://"+at+c.path, c.host); status != c.want {
			t.Errorf("%s %s of %q: %d: %s", c.method, c.path, c.host, status, text)
		}
	}
	if status, _ := get(t, "GET", "http://"+serve(t, false, figures)+"/metrics", "node-7.internal:9464"); status != 200 {
		t.Errorf("where it is open to others it is asked by name: %d", status)
	}
}

// TestExact: if ddtop runs in exact mode, the figures contain the number of processes that are followed in this mode.
// They also list the processes in which exact mode pauses, with the reason and the end of the pause.
func TestExact(t *testing.T) {
	at := serve(t, true, func() *Figures {
		f := figures()
		f.Exact = &Exact{Processes: 1, Resting: []Resting{{PID: 17, Why: "too dear", Until: time.Unix(1e9, 0).UTC()}}}
		return f
	})
	_, text := get(t, "GET", "http://"+at+"/metrics", "")
	for _, want := range []string{"\nddtop_exact_processes 1\n", "\nddtop_exact_resting_processes 1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	_, text = get(t, "GET", "http://"+at+"/healthz", "")
	if want := "exactly: 1 processes\nprocess 17: sampled only until 2001-09-09T01:46:40Z, when exact mode is tried again: \"too dear\"\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in %s", want, text)
	}
	if _, text = get(t, "GET", "http://"+serve(t, true, figures)+"/metrics", ""); strings.Contains(text, "exact") {
		t.Errorf("without exact mode: %s", text)
	}
}

// TestManyAtOnce: the server answers maxAtOnce clients at the same time. One more client gets status 503. The others
// still get their answers.
func TestManyAtOnce(t *testing.T) {
	release, asked := make(chan struct{}), make(chan struct{}, maxAtOnce)
	at := serve(t, true, func() *Figures {
		asked <- struct{}{}
		<-release
		return figures()
	})
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := make(map[int]int)
	ask := func() {
		// status stays zero if the answer takes longer than answerPatience, because then the server cuts it off.
		status := 0
		if resp, err := http.Get("http://" + at + "/metrics"); err == nil {
			status = resp.StatusCode
			resp.Body.Close()
		}
		mu.Lock()
		defer mu.Unlock()
		got[status]++
	}
	for range maxAtOnce {
		wg.Go(ask)
	}
	for range maxAtOnce {
		<-asked
	}
	refused, _ := get(t, "GET", "http://"+at+"/metrics", "")
	close(release)
	wg.Wait()
	// On a busy machine, an answer may take longer than answerPatience, so a status of zero is allowed.
	if refused != 503 || got[503] > 0 {
		t.Errorf("the one too many: %d; the others: %s", refused, fmt.Sprint(got))
	}
}

func TestBucket(t *testing.T) {
	for ns, want := range map[int64]int{0: 0, 1e6: 0, 1e6 + 1: 1, int64(5 * time.Second): len(Buckets) - 1, int64(time.Hour): len(Buckets)} {
		if got := Bucket(ns); got != want {
			t.Errorf("%d ns are in bucket %d, want %d", ns, got, want)
		}
	}
}
