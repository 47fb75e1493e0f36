package export

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// worker is a process with a pool of two threads, and with requests in progress that have the given routes.
func worker(pid int, queued, busy int64, routes ...string) ProcessStat {
	q := &sampler.Queues{Accept: sampler.Accept{Known: true},
		Pools: []sampler.Pool{{Kind: sampler.PoolPuma, Threads: 2, Busy: busy, Max: 2, Queued: queued, Clients: 0}}}
	s := report.Stat{PID: pid, Queues: report.QueuesOf(q, q, 0)}
	for i := range routes {
		s.Requests.Running = append(s.Requests.Running, report.StatRequest{StatServing: report.StatServing{Endpoint: &routes[i]}})
	}
	return ProcessStat{sampler.Process{PID: pid, Title: "puma", Part: "w3"}, s}
}

// TestSiblings: if requests are queued in one process while other processes of its program are idle, the text names the
// process. The text also names the route that keeps its threads busy. There is no text if all processes are busy, or if
// an idle thread of the process can take the queued request.
func TestSiblings(t *testing.T) {
	other := worker(15, 0, 0)
	other.Process.Title = "unicorn"
	unknown := worker(16, 0, 0)
	unknown.Stat.Queues = nil
	for _, c := range []struct {
		name string
		list []ProcessStat
		want string
	}{
		{"one behind a slow route", []ProcessStat{worker(11, 4, 2, "GET /fast", "GET /slow", "GET /slow"), worker(12, 0, 0), worker(13, 0, 1)},
			"puma w3  pid 11 has 4 requests queued behind GET /slow while 2 other processes have idle threads"},
		{"no route known", []ProcessStat{worker(11, 1, 2), worker(12, 0, 1)},
			"puma w3  pid 11 has 1 request queued while 1 other process has idle threads"},
		{"all are busy", []ProcessStat{worker(11, 4, 2), worker(12, 0, 2), worker(13, 3, 2)}, ""},
		{"a thread is about to take it", []ProcessStat{worker(11, 1, 1), worker(12, 0, 0)}, ""},
		{"idle, but another program or unknown", []ProcessStat{worker(11, 4, 2), other, unknown}, ""},
		{"alone", []ProcessStat{worker(11, 4, 2)}, ""},
	} {
		var b bytes.Buffer
		if err := WriteStats(&b, c.list, nil, 0); err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, line := range strings.Split(b.String(), "\n") {
			if strings.Contains(line, " queued") {
				said += line
			}
		}
		if said != c.want {
			t.Errorf("%s: %q, not %q", c.name, said, c.want)
		}
		b.Reset()
		if err := WriteStatsJSON(&b, c.list, nil, 0); err != nil {
			t.Fatal(err)
		}
		var got report.Several
		if err := json.Unmarshal(b.Bytes(), &got); err != nil || len(got.Siblings) > 0 != (c.want != "") {
			t.Errorf("%s: %+v, %v", c.name, got.Siblings, err)
		}
	}
}
