//go:build verify && linux

package cli_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/recording"
)

// watchedFor is how long push watches the servers. The servers have their faults only in the first half of this time.
const watchedFor = 10 * time.Minute

// lackOf limits for how long the Pumas may lack a CPU: for less than watchedFor divided by lackOf. Below this limit,
// the lack can cause the finding cpu_starved, but no other.
const lackOf = 15

// watchedApp is the Rack application of the Pumas. It answers /slow only after another server has answered it. It
// answers all other paths at once.
const watchedApp = `
require "net/http"
require "digest"
SLOW = URI(ENV.fetch("SLOW"))
run ->(env) {
  env["PATH_INFO"] == "/slow" ? Net::HTTP.get(SLOW) : 100.times { |i| Digest::SHA256.hexdigest("#{i}" * 99) }
  [200, {}, ["ok"]]
}
`

// watchedJobs are two Sidekiq jobs that wait for each other forever (a deadlock).
const watchedJobs = `
require "sidekiq"
LEFT, RIGHT, HELD = Mutex.new, Mutex.new, Queue.new
class Transfer
  include Sidekiq::Worker
  def perform(leftward)
    first, second = leftward ? [LEFT, RIGHT] : [RIGHT, LEFT]
    first.synchronize { HELD << 1; Thread.pass until HELD.size == 2; second.synchronize { } }
  end
end
`

// logIntake imitates an OTLP server and a Datadog agent. It keeps the log records that it gets.
type logIntake struct {
	mu   sync.Mutex
	logs []string
}

// ServeHTTP keeps log records. It accepts profiles and ignores them.
func (l *logIntake) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/logs" {
		return
	}
	if in, err := gzip.NewReader(r.Body); err == nil {
		b, _ := io.ReadAll(in) // an incomplete record matches no pattern
		l.mu.Lock()
		defer l.mu.Unlock()
		l.logs = append(l.logs, string(b))
	}
}

// recordOf matches a log record, which contains the names of the service, the event and the rule unchanged.
var recordOf = regexp.MustCompile(`(?s)service\.name.{1,6}?(shop|jobs|calm).*ddtop\.finding\.(start|end).*ddtop\.finding\.rule.{1,6}?([a-z_]+)`)

// eventOf matches an event of Datadog, which contains the names of the service, the event and the rule.
var eventOf = regexp.MustCompile(`(?s)^_e\{\d+,\d+\}:\[\w+\] (\w+): (over: )?.*#rule:([a-z_]+),`)

// TestAlertsOfRealServers: one `ddtop push` watches a real Puma with a slow route, a deadlocked Sidekiq and a healthy
// Puma. Each destination gets the start and the end of the slow route's and the deadlock's finding, and no other
// message. Messages of the rule cpu_starved do not count. If the Pumas lack a CPU for a fifteenth of the time or
// longer, the test judges only the deadlock.
func TestAlertsOfRealServers(t *testing.T) {
	rubytest.Long(t)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(3 * time.Second):
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	redisPort := servertest.FreePort(t)
	startServer(t, "", "", nil, "redis-server", "redis-server", "--port", redisPort, "--bind", "127.0.0.1", "--save", "")
	until(t, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+redisPort)
		return err == nil && c.Close() == nil
	}, "Redis answers")
	get := func(url string) error {
		answer, err := http.Get(url)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	puma := func(service string) (pid int, url string) {
		port := servertest.FreePort(t)
		pid = startServer(t, "config.ru", watchedApp, []string{"DD_SERVICE=" + service, "SLOW=" + slow.URL}, "puma", "puma",
			"--threads", "5:5", "--bind", "tcp://127.0.0.1:"+port, "config.ru")
		url = "http://127.0.0.1:" + port
		until(t, func() bool { return get(url) == nil }, "Puma answers")
		return pid, url
	}
	shop, shopURL := puma("shop")
	calm, calmURL := puma("calm")
	redis := "REDIS_URL=redis://127.0.0.1:" + redisPort + "/0"
	jobs := startServer(t, "jobs.rb", watchedJobs, []string{redis, "DD_SERVICE=jobs"}, "sidekiq", "ruby-sidekiq",
		"--require", "./jobs.rb", "--concurrency", "5")
	path := filepath.Join(t.TempDir(), "jobs.rb")
	if err := os.WriteFile(path, []byte(watchedJobs), 0o644); err != nil {
		t.Fatal(err)
	}
	enqueue := exec.Command("ruby", "-r"+path, "-e", "Transfer.perform_async(true); Transfer.perform_async(false)")
	enqueue.Env = append(os.Environ(), redis)
	if out, err := enqueue.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wantFinding(t, jobs, "deadlock", "")

	// The clients of the Puma named shop keep four of its five threads waiting for the slow server. The healthy Puma
	// gets a few requests.
	var clients sync.WaitGroup
	load := func(n int, url string, pause time.Duration) (stop func()) {
		done := make(chan struct{})
		for range n {
			clients.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(pause):
					}
					if err := get(url); err != nil {
						t.Error(err)
					}
				}
			})
		}
		return sync.OnceFunc(func() { close(done) })
	}
	stopSlow, stopCalm := load(4, shopURL+"/slow", time.Millisecond), load(2, calmURL, 100*time.Millisecond)
	t.Cleanup(func() { stopSlow(); stopCalm(); clients.Wait() })

	hooks, collector := new(alertIntake), new(logIntake)
	hook, otlp := httptest.NewServer(hooks), httptest.NewServer(collector)
	t.Cleanup(hook.Close)
	t.Cleanup(otlp.Close)
	dir := t.TempDir()
	agent, err := net.Listen("unix", filepath.Join(dir, "apm.socket"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(agent, collector) }() // runs until the listener is closed
	t.Cleanup(func() { agent.Close() })
	statsd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "dsd.socket"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan []string)
	go func() {
		var list []string
		for b := make([]byte, 64<<10); ; {
			n, err := statsd.Read(b)
			if err != nil {
				events <- list
				return
			}
			list = append(list, string(b[:n]))
		}
	}()

	p := startPush(t, "-p", fmt.Sprintf("%d,%d,%d", shop, calm, jobs), "--to", strings.Replace(otlp.URL, "http", "otlp+http", 1),
		"--to", "unix://"+filepath.Join(dir, "apm.socket"), "--alert", hook.URL+"/json", "--alert", "slack+"+hook.URL+"/slack",
		"--capture", filepath.Join(dir, "captures"), "--overhead", "3%")
	lacked := func() time.Duration { return rubytest.RunDelay(t, shop) + rubytest.RunDelay(t, calm) }
	before := lacked()
	<-time.After(watchedFor / 2)
	stopSlow()
	if err := syscall.Kill(jobs, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	<-time.After(watchedFor / 2)
	without := lacked() - before
	p.end(t)
	statsd.Close()
	rubytest.Report(t, "the Pumas were without a CPU for %v of %v", without, watchedFor)

	// The map got has the messages that arrived at each destination, each as the text "service event rule".
	got := make(map[string][]string)
	note := func(at, service, event, rule string) {
		// If the Pumas lack a CPU, they can match unexpected rules. So their messages do not count. The deadlocked
		// Sidekiq matches only its own rule even then.
		if rule != "cpu_starved" && (without < watchedFor/lackOf || service == "jobs") {
			got[at] = append(got[at], service+" "+event+" "+rule)
		}
	}
	places := make(map[string]alertMessage)
	for i, m := range hooks.messages(t, "/json") {
		rubytest.Report(t, "%s", hooks.at("/json")[i])
		note("webhook", m.Service, m.Event, m.Rule)
		if m.Event == "start" {
			places[m.Recording] = m
		}
	}
	for _, text := range hooks.at("/slack") {
		event := "start"
		if strings.Contains(text, "over: ") {
			event = "end"
		}
		for service, trouble := range map[string]string{"shop": "http_slow", "jobs": "deadlock"} {
			if strings.Contains(text, "] "+service+": ") && !strings.Contains(text, "CPU") {
				note("Slack", service, event, trouble)
			}
		}
	}
	for _, record := range collector.logs {
		if x := recordOf.FindStringSubmatch(record); x != nil {
			note("OTLP", x[1], x[2], x[3])
		} else {
			t.Errorf("a log record: %q", record)
		}
	}
	for _, event := range <-events {
		if x := eventOf.FindStringSubmatch(event); x != nil {
			note("Datadog", x[1], map[string]string{"": "start", "over: ": "end"}[x[2]], x[3])
		} else {
			t.Errorf("an event: %q", event)
		}
	}
	want := []string{"jobs end deadlock", "jobs start deadlock", "shop end http_slow", "shop start http_slow"}
	if without >= watchedFor/lackOf {
		want = want[:2]
	}
	for _, at := range []string{"webhook", "Slack", "OTLP", "Datadog"} {
		rubytest.Report(t, "%s: %s", at, strings.Join(got[at], ", "))
		if slices.Sort(got[at]); !slices.Equal(got[at], want) {
			t.Errorf("%s has %q, want %q; push said:\n%s", at, got[at], want, p.log)
		}
	}
	for place, m := range places {
		checkCapture(t, place, m)
	}
}

// checkCapture checks the two files of a capture, a recording and a page. The recording must be undamaged, of the named
// process and at least 30 s long, with one note. The page must have findings.
func checkCapture(t *testing.T, place string, m alertMessage) {
	t.Helper()
	r, err := recording.Open(place)
	if err != nil {
		t.Errorf("%s: %v", m.Rule, err)
		return
	}
	defer r.Close()
	page, err := os.ReadFile(m.Page)
	rubytest.Report(t, "%s of %s: %v of pid %d, %d bytes of page", m.Rule, m.Service, r.Duration(), r.Process().PID, len(page))
	if err := errors.Join(err, r.Damage()); err != nil || r.Process().PID != m.PID || r.Duration() < 30*time.Second ||
		len(r.Notes()) != 1 || !bytes.Contains(page, []byte(`"findings"`)) {
		t.Errorf("%s: pid %d, %v, notes %v, %v", m.Rule, r.Process().PID, r.Duration(), r.Notes(), err)
	}
}
