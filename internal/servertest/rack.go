package servertest

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

//go:embed rack
var rackFiles embed.FS

// Logged is a line that an application has logged about a request, a job or a statement (rack/request_log.rb).
type Logged struct {
	// Kind is "R" for a request, "J" for a job, or "S" for a statement.
	Kind string
	// FromNS and ToNS are when the application began and ended the work, in CLOCK_MONOTONIC ns. The server itself works
	// on a request for a little longer, before FromNS and after ToNS.
	FromNS, ToNS int64
	// TID is the ID of the native thread that did the work.
	TID int32
	// What is the endpoint of a request, the class of a job, or a statement. ID is the request's path with its query,
	// or the job's class with its arguments.
	What, ID string
}

// RequestLog returns what an application has logged in a file so far, line by line.
func RequestLog(t testing.TB, path string) []Logged {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []Logged
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) < 5 || !strings.HasSuffix(line, "\n") {
			continue // the line is still being written
		}
		var l Logged
		if _, err := fmt.Sscan(strings.Join(f[1:4], " "), &l.FromNS, &l.ToNS, &l.TID); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		l.Kind, l.What = f[0], strings.ReplaceAll(f[4], "\v", "\n")
		if len(f) > 5 {
			l.ID = f[5]
		}
		out = append(out, l)
	}
	return out
}

// copyRack copies the files of the folder rack into a new folder, and returns the new folder.
func copyRack(t testing.TB) (dir string) {
	t.Helper()
	dir = tempDir(t)
	files, err := fs.Sub(rackFiles, "rack")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Rack is a small application that runs on a server from a Debian package.
type Rack struct {
	// URL is http://127.0.0.1:PORT, followed by the common beginning of the application's paths.
	URL string
	// PIDs are the PIDs of the processes that serve requests.
	PIDs []int
	// Log is the path of the application's log (RequestLog).
	Log string
}

// StartRack starts the application rack/APP.ru on a server: "puma", "puma cluster", "webrick", "unicorn", "thin" or
// "passenger". On the server "async" it starts rack/APP.rb. It returns when the server answers and all its workers run.
func StartRack(t testing.TB, server, app string) *Rack {
	t.Helper()
	dir := copyRack(t)
	ruby := rubytest.Program(t, "ruby", "ruby")
	if needs := map[string][2]string{"sinatra": {"sinatra/base", "ruby-sinatra"}, "grape": {"grape", "ruby-grape"}, "async_http": {"async/http/server", "ruby-async-http"}}[app]; needs[0] != "" {
		if out, err := exec.Command(ruby, "-r"+needs[0], "-e", "0").CombinedOutput(); err != nil {
			rubytest.Skip(t, "needs %s: apt-get install %s (%s)", needs[0], needs[1], bytes.TrimSpace(out))
		}
	}
	port := FreePort(t)
	r := &Rack{URL: "http://127.0.0.1:" + port, Log: filepath.Join(dir, "requests.log")}
	if app == "grape" {
		r.URL += "/api/v1"
	}
	var cmd *exec.Cmd
	processes := 1
	switch server {
	case "puma":
		cmd = exec.Command(rubytest.Program(t, "puma", "puma"), "-t", "4:4", "-b", "tcp://127.0.0.1:"+port, app+".ru")
	case "puma cluster":
		cmd = exec.Command(rubytest.Program(t, "puma", "puma"), "-w", "2", "-t", "2:2", "-b", "tcp://127.0.0.1:"+port, app+".ru")
		processes = 2
	case "webrick":
		cmd = exec.Command(rubytest.Program(t, "rackup", "ruby-rack"), "-s", "webrick", "-o", "127.0.0.1", "-p", port, app+".ru")
	case "unicorn":
		cmd = exec.Command(rubytest.Program(t, "unicorn", "unicorn"), "-l", "127.0.0.1:"+port, app+".ru")
		processes = 0
	case "thin":
		cmd = exec.Command(rubytest.Program(t, "thin", "thin"), "-a", "127.0.0.1", "-p", port, "-R", app+".ru", "--threaded", "start")
	case "async":
		cmd = exec.Command(ruby, app+".rb", port)
	case "passenger":
		cmd = passenger(t, dir, app, port)
	}
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "RACK_ENV=production", "APP_ENV=production", "REQUEST_LOG="+r.Log)
	pid := start(t, cmd)
	answers(t, server, r.URL+"/report?ms=0")
	r.PIDs = []int{pid}
	if server == "passenger" {
		r.PIDs = awaitPassenger(t, pid, dir)
	}
	if processes != 1 {
		await(t, server+" has its workers", func() (err error) {
			r.PIDs, err = pumaWorkers(pid)
			if err == nil && len(r.PIDs) < max(processes, 1) {
				err = fmt.Errorf("%d of %d", len(r.PIDs), processes)
			}
			return err
		})
	}
	return r
}

// answers waits until a server answers a request.
func answers(t testing.TB, server, url string) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	await(t, server+" answers", func() error {
		answer, err := client.Get(url)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", answer.Status)
		}
		return err
	})
}

// Puma is a Puma that runs rack/plain.ru.
type Puma struct {
	// Port is the port of the application. Control is the port of Puma's control server, which needs no token.
	Port, Control string
	// PIDs are the PIDs of the processes that serve requests.
	PIDs []int
}

// StartPuma starts Puma with the given additional arguments. It returns when the server answers and all its workers
// run.
func StartPuma(t testing.TB, args ...string) *Puma {
	t.Helper()
	p := &Puma{Port: FreePort(t), Control: FreePort(t)}
	cmd := exec.Command(rubytest.Program(t, "puma", "puma"), append(args, "-b", "tcp://127.0.0.1:"+p.Port,
		"--control-url", "tcp://127.0.0.1:"+p.Control, "--control-token", "none", "plain.ru")...)
	cmd.Dir = copyRack(t)
	cmd.Env = append(os.Environ(), "REQUEST_LOG="+filepath.Join(cmd.Dir, "requests.log"))
	pid := start(t, cmd)
	answers(t, "Puma", "http://127.0.0.1:"+p.Port+"/orders/1")
	p.PIDs = []int{pid}
	if slices.Contains(args, "-w") {
		await(t, "Puma has its workers", func() (err error) {
			p.PIDs, err = pumaWorkers(pid)
			if err == nil && len(p.PIDs) < 2 {
				err = fmt.Errorf("%d workers", len(p.PIDs))
			}
			return err
		})
	}
	return p
}

// Sidekiq is a running Sidekiq. Its Redis is only for this test.
type Sidekiq struct {
	PID int
	Log string
	// Push queues n jobs of each class. The jobs of a class are numbered from first on.
	Push func(first, n int)
}

// StartSidekiq starts Sidekiq with four threads, which run the jobs in rack/jobs.rb.
func StartSidekiq(t testing.TB) *Sidekiq {
	t.Helper()
	sidekiq, redis := rubytest.Program(t, "sidekiq", "ruby-sidekiq"), rubytest.Program(t, "redis-server", "redis-server")
	ruby := rubytest.Program(t, "ruby", "ruby")
	dir := copyRack(t)
	port := FreePort(t)
	database := exec.Command(redis, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	start(t, database)
	s := &Sidekiq{Log: filepath.Join(dir, "requests.log")}
	env := append(os.Environ(), "REDIS_URL=redis://127.0.0.1:"+port+"/0", "REQUEST_LOG="+s.Log)
	s.Push = func(first, n int) {
		push := exec.Command(ruby, "-r./jobs", "-e", `first, n = ARGV.map(&:to_i)
n.times { |i| ShipOrder.perform_async(first + i, 5 + i % 40); Reports::Daily.perform_async(first + i, 5 + i % 20) }`, strconv.Itoa(first), strconv.Itoa(n))
		push.Dir, push.Env = dir, env
		await(t, "jobs are pushed", func() error {
			again := *push
			out, err := again.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	s.Push(0, 1)
	server := exec.Command(sidekiq, "-r", "./jobs.rb", "-c", "4")
	server.Dir, server.Env = dir, env
	s.PID = start(t, server)
	await(t, "Sidekiq works", func() error {
		if text, err := os.ReadFile(s.Log); err != nil || bytes.Count(text, []byte("\nJ")) < 1 {
			return fmt.Errorf("%d bytes logged (%v)", len(text), err)
		}
		return nil
	})
	return s
}
