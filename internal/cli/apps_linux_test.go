package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
)

// The tests in this file use real servers and gems (Debian's packages puma, ruby-sidekiq, redis-server). Tests in other
// files imitate servers with small Ruby programs. If a server is not installed, its tests are skipped.

// startServer starts a program in a temporary folder. If file is not empty, the folder has a file with this name and
// text. The program is killed at the end of the test.
func startServer(t *testing.T, file, text string, env []string, name, pkg string, args ...string) (pid int) {
	t.Helper()
	path := rubytest.Program(t, name, pkg)
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second
	if file != "" {
		if err := os.WriteFile(filepath.Join(cmd.Dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A server may have child processes, so the test kills the whole process group.
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // ignore the error: it only says that the process was killed
		if t.Failed() {
			t.Logf("%s said:\n%s", name, said.String())
		}
	})
	return cmd.Process.Pid
}

// measuredServer has the fields of stat's JSON that the tests of servers check.
type measuredServer struct {
	Threads []struct {
		Name *string
		NS   map[string]int64
	}
	Findings []struct{ ID, Text string }
}

// statServer runs `ddtop stat` on a process for five seconds.
func statServer(t *testing.T, pid int) measuredServer {
	t.Helper()
	r := run(t, "stat", "-p", strconv.Itoa(pid), "-d", "5s", "--json")
	r.want(t, 0)
	var s measuredServer
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// quiet checks that stat reports no finding. It allows only cpu_starved, which a busy machine causes.
func (s measuredServer) quiet(t *testing.T) {
	t.Helper()
	for _, f := range s.Findings {
		if f.ID != "cpu_starved" {
			t.Errorf("idle: %+v", f)
		}
	}
}

// mostly returns, for each thread whose name begins with prefix, the state in which the thread spent the most time.
func (s measuredServer) mostly(prefix string) (states []string) {
	for _, th := range s.Threads {
		if th.Name == nil || !strings.HasPrefix(*th.Name, prefix) {
			continue
		}
		best := ""
		for state, ns := range th.NS {
			if best == "" || ns > th.NS[best] {
				best = state
			}
		}
		states = append(states, best)
	}
	return states
}

// wantFinding measures a process repeatedly, until stat reports the finding with the name id, and the finding's text
// contains text.
func wantFinding(t *testing.T, pid int, id, text string) {
	t.Helper()
	until(t, func() bool {
		return slices.ContainsFunc(statServer(t, pid).Findings, func(f struct{ ID, Text string }) bool {
			return f.ID == id && strings.Contains(f.Text, text)
		})
	}, "finding %s with %q", id, text)
}

// TestRealPuma: when Puma is idle, stat shows its workers as parked and reports no finding. When its requests queue for
// a Mutex, stat reports a lock convoy.
func TestRealPuma(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	port := servertest.FreePort(t)
	const app = `
LOCK = Mutex.new
run ->(env) { env["PATH_INFO"] == "/lock" && LOCK.synchronize { sleep 0.3 }; [200, {}, ["ok"]] }
`
	pid := startServer(t, "config.ru", app, nil, "puma", "puma", "--threads", "5:5", "--bind", "tcp://127.0.0.1:"+port, "config.ru")
	url := "http://127.0.0.1:" + port
	get := func(path string) error {
		response, err := http.Get(url + path)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	until(t, func() bool { return get("/") == nil }, "Puma answers")
	http.DefaultClient.CloseIdleConnections()

	idle := statServer(t, pid)
	idle.quiet(t)
	if got := idle.mostly("puma srv tp"); !slices.Equal(got, []string{"parked", "parked", "parked", "parked", "parked"}) {
		t.Errorf("idle workers are %v", got)
	}

	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 5 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := get("/lock"); err != nil {
						return // the test has ended the server
					}
				}
			}
		})
	}
	defer clients.Wait()
	defer close(stop)
	wantFinding(t, pid, "lock_convoy", "wait for Mutex")
}

// TestRealSidekiq: when Sidekiq is idle, stat reports no finding. When its jobs wait for a slow HTTP server, a finding
// names this server.
func TestRealSidekiq(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	port := servertest.FreePort(t)
	rubytest.Program(t, "sidekiq", "ruby-sidekiq")
	startServer(t, "", "", nil, "redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "")
	until(t, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		return err == nil && c.Close() == nil
	}, "Redis answers")
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(3 * time.Second):
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()

	jobs := fmt.Sprintf(`
require "sidekiq"
require "net/http"
class Fetch
  include Sidekiq::Worker
  def perform = Net::HTTP.get(URI(%q))
end

`, slow.URL)
	redis := "REDIS_URL=redis://127.0.0.1:" + port + "/0"
	pid := startServer(t, "jobs.rb", jobs, []string{redis}, "sidekiq", "ruby-sidekiq", "--require", "./jobs.rb", "--concurrency", "5")
	until(t, func() bool {
		// Just after its start, the process may not run Ruby yet. In this case dump fails, and the test tries again.
		r := run(t, "dump", "-p", strconv.Itoa(pid))
		return r.code == 0 && strings.Count(r.out, "io ← read 127.0.0.1:"+port) == 5
	}, "five processors wait for Redis")

	idle := statServer(t, pid)
	idle.quiet(t)
	if got := idle.mostly("processor"); !slices.Equal(got, []string{"io", "io", "io", "io", "io"}) {
		t.Errorf("idle processors are %v", got)
	}

	path := filepath.Join(t.TempDir(), "jobs.rb")
	if err := os.WriteFile(path, []byte(jobs), 0o644); err != nil {
		t.Fatal(err)
	}
	push := exec.Command("ruby", "-r"+path, "-e", "100.times { Fetch.perform_async }")
	push.Env = append(os.Environ(), redis)
	if out, err := push.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wantFinding(t, pid, "http_slow", strings.TrimPrefix(slow.URL, "http://"))
}

// TestRealPostgreSQL: if threads wait for slow queries, the finding names the database's address and port. The test's
// database uses a free port.
func TestRealPostgreSQL(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	if out, err := exec.Command(rubytest.Program(t, "ruby", "ruby"), "-rpg", "-e", "0").CombinedOutput(); err != nil {
		rubytest.Skip(t, "needs Ruby's pg: apt-get install ruby-pg (%s)", bytes.TrimSpace(out))
	}
	port := servertest.Postgres(t)
	program := fmt.Sprintf(`
require "pg"
$stdout.sync = true
4.times do |i|
  db = PG.connect(host: "127.0.0.1", port: %s, user: "ddtop", dbname: "postgres")
  Thread.new { loop { db.exec("SELECT pg_sleep(0.3)") } }.name = "worker-#{i}"
end
sleep
`, port)
	pid := startServer(t, "queries.rb", program, nil, "ruby", "ruby", "queries.rb")
	wantFinding(t, pid, "db_slow", "127.0.0.1:"+port)
}

// TestNamesOfRealServers: `ddtop ps` shows the number of each of Puma's workers. ps and the screen show how many
// threads of Sidekiq are busy. Sidekiq's threads all have the same name, so dump adds a number to each name.
func TestNamesOfRealServers(t *testing.T) {
	rubytest.Long(t)
	row := func(pid int) string { return psRow(t, run(t, "ps").out, pid) }
	puma := servertest.StartRack(t, "puma cluster", "plain")
	var numbers []string
	for _, pid := range puma.PIDs {
		got := row(pid) // called only once: in another run, the last column can begin elsewhere
		numbers = append(numbers, got[strings.Index(got, "puma"):])
	}
	if slices.Sort(numbers); !slices.Equal(numbers, []string{"puma w0", "puma w1"}) {
		t.Errorf("the workers are %q", numbers)
	}

	sidekiq := servertest.StartSidekiq(t)
	if got := row(sidekiq.PID); !regexp.MustCompile(`sidekiq \[\d of 4 busy\]$`).MatchString(got) {
		t.Errorf("Sidekiq is %q", got)
	}
	r := run(t, "dump", "-p", strconv.Itoa(sidekiq.PID))
	r.want(t, 0)
	for i := 1; i <= 4; i++ {
		if want := fmt.Sprintf("\n\"processor %d\" #", i); strings.Count(r.out, want) != 1 {
			t.Errorf("not one thread %q in\n%s", want, r.out)
		}
	}
	x := inTerminal(t, "-p", strconv.Itoa(sidekiq.PID))
	x.see(t, "of 4 busy]")
	if err := syscall.Kill(sidekiq.PID, syscall.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	x.see(t, "of 4 busy] quiet") // Sidekiq updates its title every ten seconds
	x.press(t, "q")
	x.leaves(t, 0)
	if got := row(sidekiq.PID); !strings.HasSuffix(got, "of 4 busy] quiet") {
		t.Errorf("when it is quiet Sidekiq is %q", got)
	}
}
