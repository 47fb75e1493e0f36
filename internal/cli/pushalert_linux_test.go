package cli_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// alertMessage is the JSON of a message that `ddtop push` sends to a webhook.
type alertMessage struct {
	ID, Event, Rule, Severity, Service, Text, Recording, Page string
	PID, Processes, Followed                                  int
}

// alertIntake is a server that receives webhooks. It stores the messages by the path of the request.
type alertIntake struct {
	mu  sync.Mutex
	got map[string][]string
}

// ServeHTTP accepts a message and stores it.
func (a *alertIntake) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body) // if the body is incomplete, it is no valid JSON
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.got == nil {
		a.got = make(map[string][]string)
	}
	a.got[r.URL.Path] = append(a.got[r.URL.Path], string(b))
}

func (a *alertIntake) at(path string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.got[path][:len(a.got[path]):len(a.got[path])]
}

// messages returns the messages that the webhook at a path got.
func (a *alertIntake) messages(t *testing.T, path string) (out []alertMessage) {
	t.Helper()
	for _, text := range a.at(path) {
		var m alertMessage
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		out = append(out, m)
	}
	return out
}

const deadlockedRuby = `
$stdout.sync = true
a, b = Mutex.new, Mutex.new
held = Queue.new
[[a, b], [b, a]].each { |x, y| Thread.new { x.synchronize { held << 1; Thread.pass until held.size == 2; y.synchronize { } } } }
Thread.pass until held.size == 2
Thread.new { loop { sleep 0.1 } }
puts "up"
STDIN.gets`

const idleRuby = `$stdout.sync = true; Thread.new { loop { sleep 0.1 } }; puts "up"; STDIN.gets`

// TestPushTellsOfDeadlocks: two deadlocked workers of one service together cause only one message at each destination.
// The message names a recording and a page, and both files can be opened. A healthy process causes no message. When
// both workers have ended, a second message reports the end. The log contains neither the path nor a header of a
// destination, because these can be secrets.
func TestPushTellsOfDeadlocks(t *testing.T) {
	t.Parallel()
	start := func(service, code string) *rubytest.Process {
		p := rubytest.One(t).Start(t, code, rubytest.Options{Env: []string{"DD_SERVICE=" + service}})
		p.Expect(t, "up")
		return p
	}
	workers := []*rubytest.Process{start("shop", deadlockedRuby), start("shop", deadlockedRuby)}
	healthy := start("mail", idleRuby)
	in := new(alertIntake)
	s := httptest.NewUnstartedServer(in)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	captures, profiles := filepath.Join(dir, "captures"), filepath.Join(dir, "profiles")
	pids := fmt.Sprintf("%d,%d,%d", workers[0].PID, workers[1].PID, healthy.PID)
	p := startPushWith(t, []string{"SSL_CERT_FILE=" + roots, "DDTOP_ALERTS=slack+" + s.URL + "/hunter2", "DDTOP_ALERT_HEADERS=x-key=hunter3"},
		"-p", pids, "--to", "file://"+profiles, "--period", "1s", "--alert", s.URL+"/json", "--capture", captures, "--status", "127.0.0.1:0")
	p.await(t, "a message at each destination", func() bool { return len(in.at("/json")) > 0 && len(in.at("/hunter2")) > 0 })
	at := regexp.MustCompile(`at=(http://\S+/metrics)`).FindStringSubmatch(p.log.String())
	if at == nil {
		t.Fatalf("it does not say where figures are:\n%s", p.log)
	}
	p.await(t, "both workers in the figures", func() bool {
		resp, err := http.Get(at[1])
		if err != nil {
			return false // the server is too busy and did not answer
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body) // if the answer is incomplete, the line is missing
		return strings.Contains(string(b), "ddtop_finding_active{rule=\"deadlock\",service=\"shop\",severity=\"crit\"} 2\n")
	})
	// On a busy machine push may find the second worker more than five seconds after the first one. In this case the
	// first message counts only one process.
	m := in.messages(t, "/json")[0]
	if m.Event != "start" || m.Rule != "deadlock" || m.Severity != "crit" || m.Service != "shop" || m.Processes < 1 ||
		m.PID != workers[0].PID && m.PID != workers[1].PID {
		t.Errorf("%+v", m)
	}
	if text := in.at("/hunter2")[0]; !strings.Contains(text, "[crit] shop: Deadlock") || !strings.Contains(text, m.Recording) {
		t.Errorf("Slack was sent %s", text)
	}
	for _, w := range append(workers, healthy) {
		w.CloseStdin(t)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v; it said:\n%s", err, p.log)
	}
	all := in.messages(t, "/json")
	if len(all) != 2 || all[1].Event != "end" || all[1].ID != m.ID || all[1].Processes != 2 || all[1].Recording != m.Recording || len(in.at("/hunter2")) != 2 {
		t.Errorf("in all %+v and %d", all, len(in.at("/hunter2")))
	}
	r, err := recording.Open(m.Recording)
	if err != nil {
		t.Fatalf("%v; it said:\n%s", err, p.log)
	}
	defer r.Close()
	if r.Process().PID != m.PID || len(r.Notes()) != 1 || !strings.Contains(r.Notes()[0].Text, "Deadlock") {
		t.Errorf("the recording is of %d, with the notes %v", r.Process().PID, r.Notes())
	}
	if page, err := os.ReadFile(m.Page); err != nil || !strings.Contains(string(page), "Deadlock") {
		t.Errorf("the page: %v", err)
	}
	if got := profilesIn(t, profiles); len(got) != 3 {
		t.Errorf("profiles of %d processes", len(got))
	}
	if text := p.log.String(); strings.Contains(text, "hunter") || strings.Contains(text, "/json") {
		t.Errorf("it said:\n%s", text)
	}
}

// TestBadAlertsAreRefused: `ddtop push` refuses invalid values of --alert, --capture and --finding at once. The error
// does not repeat the secrets in them.
func TestBadAlertsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--alert", "hunter2"}, {"--alert", "ftp://x/hunter2"}, {"--alert", "https://me:hunter2@x/"}, {"--alert", "https://x/hunter2", "--alert", "https://x/hunter2"},
		{"--alert", "https://x:hunter2/"}, {"--capture", "ftp://x/hunter2"}, {"--capture", "https://me:hunter2@x/"}, {"--finding", "hunter"},
	} {
		p := startPush(t, append(args, "-p", strconv.Itoa(os.Getpid()))...)
		if err := p.cmd.Wait(); err == nil || strings.Contains(p.log.String(), "hunter2") {
			t.Errorf("%q: %v, %s", args, err, p.log)
		}
	}
}

// TestPushRedacts: with --redact, no title, thread name or tag of the process is in a message, a profile, a capture or
// the log. Only the service's name stays, because destinations sort what they get by service.
func TestPushRedacts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code := strings.ReplaceAll(deadlockedRuby, "Thread.new {", `Thread.new { Thread.current.name = "hunter2's";`)
	ruby := rubytest.One(t).Start(t, "$0 = 'hunter3-app'\n"+code, rubytest.Options{Env: []string{"DD_SERVICE=shop", "DD_TAGS=customer:hunter4"}})
	ruby.Expect(t, "up")
	in := new(alertIntake)
	s := httptest.NewServer(in)
	t.Cleanup(s.Close)
	captures, profiles := filepath.Join(dir, "captures"), filepath.Join(dir, "profiles")
	p := startPush(t, "-p", strconv.Itoa(ruby.PID), "--redact", "--heap", "--to", "file://"+profiles, "--alert", s.URL, "--capture", captures)
	p.await(t, "a message", func() bool { return len(in.at("/")) > 0 })
	ruby.CloseStdin(t)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v; it said:\n%s", err, p.log)
	}
	m := in.messages(t, "/")
	if len(m) != 2 || m[0].Service != "shop" || !strings.Contains(m[0].Text, "thread A") {
		t.Fatalf("%+v", m)
	}
	r, err := recording.Open(m[0].Recording)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	if err := r.Range(math.MinInt64, math.MaxInt64, func(*sampler.Sample) {}); err != nil {
		t.Error(err)
	}
	for id := sampler.ThreadID(1); ; id++ {
		info, ok := r.Dictionary().Thread(id)
		if !ok {
			break
		}
		names = append(names, info.Name)
	}
	page, err := os.ReadFile(m[0].Page)
	if err != nil || !strings.Contains(string(page), `"name":"String","objects":`) {
		t.Error("the page has no table of objects", err)
	}
	all := fmt.Sprint(r.Process(), names, r.Notes(), string(page), p.log, in.at("/"))
	for _, list := range profilesIn(t, profiles) {
		all += fmt.Sprint(list)
	}
	if i := strings.Index(all, "hunter"); i >= 0 || len(names) < 3 {
		t.Errorf("of threads %q: …%s…", names, all[max(i-100, 0):min(max(i, 0)+100, len(all))])
	}
}
