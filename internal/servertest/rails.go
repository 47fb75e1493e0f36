package servertest

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
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

// The names of partial views begin with "_". Only "all:" embeds such files.
//
//go:embed all:app
var app embed.FS

// Rails is a running shop: a Rails application on a Puma cluster. It has a PostgreSQL that no other program uses.
// app/load.lua requests the shop's pages.
type Rails struct {
	// URL is http://127.0.0.1:PORT.
	URL string
	// Dir is the application's folder. Log is the path of its log (RequestLog), with its requests and statements.
	Dir, Log string
	// Master is the PID of Puma's master process. Workers are the PIDs of its worker processes, in no order.
	Master  int
	Workers []int
}

// StartRails starts the shop with the given number of worker processes, and of threads in each. It returns when all
// workers run.
func StartRails(t testing.TB, workers, threads int) *Rails {
	t.Helper()
	return startRails(t, workers, threads, false)
}

// StartLoggingRails is like StartRails, but the shop logs its requests and statements.
func StartLoggingRails(t testing.TB, workers, threads int) *Rails {
	t.Helper()
	return startRails(t, workers, threads, true)
}

func startRails(t testing.TB, workers, threads int, logs bool) *Rails {
	t.Helper()
	puma := rubytest.Program(t, "puma", "puma")
	ruby := rubytest.Program(t, "ruby", "ruby")
	if out, err := exec.Command(ruby, "-rrails", "-rpg", "-e", "0").CombinedOutput(); err != nil {
		rubytest.Skip(t, "needs Rails and pg: apt-get install ruby-rails ruby-pg (%s)", bytes.TrimSpace(out))
	}
	database := Postgres(t)
	r := &Rails{URL: "http://127.0.0.1:" + FreePort(t), Dir: filepath.Join(tempDir(t), "shop")}
	files, err := fs.Sub(app, "app")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(r.Dir, files); err != nil {
		t.Fatal(err)
	}
	rackCode, err := fs.ReadFile(rackFiles, "rack/request_log.rb")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "request_log.rb"), rackCode, 0o644); err != nil {
		t.Fatal(err)
	}
	if logs {
		r.Log = filepath.Join(r.Dir, "requests.log")
	}
	env := append(os.Environ(), "REQUEST_LOG="+r.Log, "RAILS_ENV=production", "RAILS_SERVE_STATIC_FILES=", "WORKERS="+strconv.Itoa(workers), "THREADS="+strconv.Itoa(threads),
		"BIND="+strings.Replace(r.URL, "http", "tcp", 1), "DATABASE_URL=postgresql://ddtop@127.0.0.1:"+database+"/postgres?pool="+strconv.Itoa(threads))
	seed := exec.Command(ruby, "db/seeds.rb")
	seed.Dir, seed.Env = r.Dir, env
	if out, err := seed.CombinedOutput(); err != nil {
		t.Fatalf("seeding the database: %v\n%s", err, out)
	}
	server := exec.Command(puma, "-C", "config/puma.rb")
	server.Dir, server.Env = r.Dir, env
	r.Master = start(t, server)
	client := http.Client{Timeout: 10 * time.Second}
	await(t, "Rails answers", func() error {
		answer, err := client.Get(r.URL + "/orders/1")
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	})
	await(t, "Puma has its workers", func() (err error) {
		r.Workers, err = pumaWorkers(r.Master)
		if err == nil && len(r.Workers) < workers {
			err = fmt.Errorf("%d of %d", len(r.Workers), workers)
		}
		return err
	})
	return r
}

// Completed returns how many requests a worker process has answered.
func (r *Rails) Completed(t testing.TB, worker int) int {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(r.Dir, "production.log"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(log, fmt.Appendf(nil, "\n%d Completed ", worker))
}

// pumaWorkers lists the children of Puma's master.
func pumaWorkers(master int) ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", master))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	slices.Sort(out)
	return out, nil
}
