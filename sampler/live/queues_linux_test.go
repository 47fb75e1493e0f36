package live_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// pumaStats is what Puma's control server reports about one process of the server (Puma.stats).
type pumaStats struct {
	Backlog  int64 `json:"backlog"`
	Running  int64 `json:"running"`
	Capacity int64 `json:"pool_capacity"`
	Max      int64 `json:"max_threads"`
}

// until calls asked until it returns true. The test fails if this takes too long.
func until(t *testing.T, what string, asked func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !asked(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

// controlOf asks Puma's control server for the stats of each process that serves requests. The key of the result is the
// process's PID. For a Puma with one process, the key is zero.
func controlOf(t *testing.T, port string) map[int]pumaStats {
	t.Helper()
	r, err := http.Get("http://127.0.0.1:" + port + "/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		pumaStats
		Workers []struct {
			PID    int       `json:"pid"`
			Status pumaStats `json:"last_status"`
		} `json:"worker_status"`
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if len(all.Workers) == 0 {
		return map[int]pumaStats{0: all.pumaStats}
	}
	out := make(map[int]pumaStats)
	for _, w := range all.Workers {
		out[w.PID] = w.Status
	}
	return out
}

// waitingAt returns the length and the limit of a port's accept queue. It gets them from the program ss.
func waitingAt(t *testing.T, port string) string {
	t.Helper()
	out, err := exec.Command(rubytest.Program(t, "ss", "iproute2"), "-Hltn", "sport", "= :"+port).Output()
	f := strings.Fields(string(out))
	if err != nil || len(f) < 4 {
		t.Fatal(err, string(out))
	}
	return f[1] + " of " + f[2]
}

// lengthAt returns the length of the accept queue of a port: the number of connections that the server has not accepted
// yet.
func lengthAt(t *testing.T, port string) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(waitingAt(t, port), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// queuesOf reads the queues of a process until the function right returns true for them. If it never does, the test
// fails.
func queuesOf(t *testing.T, s *live.Source, what string, right func(*sampler.Queues) bool) *sampler.Queues {
	t.Helper()
	var q *sampler.Queues
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		x, err := s.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if q = x.Queues; q != nil && right(q) {
			return q
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in a minute: %s; the queues are %+v", what, q)
		}
	}
}

// send connects to a port and sends a part of a request.
func send(t *testing.T, port, part string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, part); err != nil {
		t.Fatal(err)
	}
	return c
}

// slowRequest is a request that occupies its thread until the test ends. It lacks the empty line at its end: callers
// append this line to complete the request.
const slowRequest = "GET /orders/1?ms=600000 HTTP/1.1\r\nHost: x\r\n"

func openLive(t *testing.T, pid int) *live.Source {
	t.Helper()
	s, err := live.Open(t.Context(), pid, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestPumaQueues: slow requests occupy all threads of a Puma, so further requests wait in queues. The queues that ddtop
// reads must equal the queues that Puma.stats and ss report.
func TestPumaQueues(t *testing.T) {
	puma := servertest.StartPuma(t, "-t", "3:3")
	port := puma.Port
	s := openLive(t, puma.PIDs[0])
	// If a client has sent only a part of a request, the request waits in Puma's reactor and occupies no thread.
	var halves []net.Conn
	for range 3 {
		halves = append(halves, send(t, port, slowRequest))
	}
	queuesOf(t, s, "three clients in the reactor", func(q *sampler.Queues) bool { return len(q.Pools) == 1 && q.Pools[0].Clients == 3 })
	for range 3 {
		send(t, port, slowRequest+"\r\n")
	}
	until(t, "all threads are busy", func() bool { x := controlOf(t, puma.Control)[0]; return x.Capacity == 0 && x.Running == 3 })
	for _, c := range halves[:2] { // the pool gets these two requests, because they become complete
		if _, err := io.WriteString(c, "\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "two requests wait", func() bool { return controlOf(t, puma.Control)[0].Backlog == 2 })
	for range 4 { // Puma 7 accepts these connections, but older releases leave them in the accept queue
		send(t, port, slowRequest+"\r\n")
	}
	until(t, "six wait", func() bool { return lengthAt(t, port)+controlOf(t, puma.Control)[0].Backlog == 6 })
	q := queuesOf(t, s, "six wait", func(q *sampler.Queues) bool { n, known := q.Backlog(); return known && n == 6 })
	said, kernel := controlOf(t, puma.Control)[0], waitingAt(t, port)
	if want := []sampler.Pool{{Kind: sampler.PoolPuma, Threads: said.Running, Busy: said.Running - said.Capacity + said.Max - said.Running,
		Max: said.Max, Queued: said.Backlog, Clients: 1}}; !slices.Equal(q.Pools, want) {
		t.Errorf("the pools are %+v; Puma says %+v", q.Pools, said)
	}
	i := slices.IndexFunc(q.Accept.Listeners, func(l sampler.Listener) bool { return l.Address == "127.0.0.1:"+port })
	if i < 0 {
		t.Fatalf("no listener at port %s: %+v", port, q.Accept)
	}
	if l := q.Accept.Listeners[i]; fmt.Sprintf("%d of %d", l.Queued, l.Limit) != kernel {
		t.Errorf("%+v; ss says %s", l, kernel)
	}
}

// TestUnicornQueue: Unicorn itself has no queue, so requests wait in the kernel's accept queue. ddtop must report the
// same length of this queue as ss.
func TestUnicornQueue(t *testing.T) {
	unicorn := servertest.StartRack(t, "unicorn", "sinatra")
	port := unicorn.URL[strings.LastIndexByte(unicorn.URL, ':')+1:]
	s := openLive(t, unicorn.PIDs[0])
	send(t, port, slowRequest+"\r\n")
	until(t, "the worker has the request", func() bool { return lengthAt(t, port) == 0 })
	for range 3 {
		send(t, port, slowRequest+"\r\n")
	}
	until(t, "three wait", func() bool { return lengthAt(t, port) == 3 })
	q := queuesOf(t, s, "three wait", func(q *sampler.Queues) bool { n, known := q.Backlog(); return known && n == 3 })
	if l := q.Accept.Listeners; len(q.Pools) > 0 || len(l) != 1 || l[0].Address != "127.0.0.1:"+port ||
		fmt.Sprintf("%d of %d", l[0].Queued, l[0].Limit) != waitingAt(t, port) {
		t.Errorf("%+v; ss says %s", q, waitingAt(t, port))
	}
}

// TestPassengerQueue: requests wait in Passenger's core, which is another process, until a Ruby process is free. ddtop
// reads the queues of the Ruby process's sockets, as ss does. But these queues do not show how many requests wait in
// the core. So ddtop must refer to passenger-status, which reports this number.
func TestPassengerQueue(t *testing.T) {
	passenger := servertest.StartRack(t, "passenger", "plain")
	t.Cleanup(func() { // Passenger waits for the requests before it ends, so let them end
		if err := os.WriteFile(filepath.Join(filepath.Dir(passenger.Log), "let_go"), nil, 0o644); err != nil {
			t.Error(err)
		}
	})
	port := passenger.URL[strings.LastIndexByte(passenger.URL, ':')+1:]
	s := openLive(t, passenger.PIDs[0])
	q := queuesOf(t, s, "two sockets", func(q *sampler.Queues) bool { return len(q.Accept.Listeners) == 2 })
	for range len(passenger.PIDs) + 3 {
		send(t, port, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	said := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("passenger-status said at last: %s", said)
		}
	})
	until(t, "three wait", func() bool {
		said = passengerStatus(t, q.Accept.Listeners)
		_, queue, ok := strings.Cut(said, "Requests in queue: ")
		var n int
		if _, err := fmt.Sscan(queue, &n); err != nil || !ok {
			t.Fatal(said)
		}
		// Passenger itself sends a first request (helper-scripts/prespawn). This request may wait, too, so there may be
		// more than three.
		return n >= 3 && strings.Count(said, "Sessions: 1") == strings.Count(said, "* PID: ")
	})
	from := q.AtNS
	q = queuesOf(t, s, "read since then", func(q *sampler.Queues) bool { return q.AtNS > from })
	if n, known := q.Backlog(); known || !strings.Contains(q.Accept.Why, "passenger-status") {
		t.Errorf("the backlog is %d (%v), because %q", n, known, q.Accept.Why)
	}
	for _, l := range q.Accept.Listeners {
		family := "-Hltn"
		if strings.HasPrefix(l.Address, "/") {
			family = "-Hlxn"
		}
		said, err := exec.Command(rubytest.Program(t, "ss", "iproute2"), family, "src", l.Address).Output()
		f := strings.Fields(string(said))
		if at := slices.Index(f, l.Address); err != nil || at < 2 || f[at-2]+" of "+f[at-1] != fmt.Sprintf("%d of %d", l.Queued, l.Limit) {
			t.Errorf("%+v; ss says %q (%v)", l, said, err)
		}
	}
}

// passengerStatus returns the output of passenger-status for the Passenger instance that has one of these listeners.
// Other instances may run on the machine, too.
func passengerStatus(t *testing.T, of []sampler.Listener) string {
	t.Helper()
	var instance struct {
		Name string `json:"name"`
	}
	for _, l := range of {
		dir, _, ok := strings.Cut(l.Address, "/apps.s/")
		if !ok {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "properties.json"))
		if err == nil {
			err = json.Unmarshal(text, &instance)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(rubytest.Program(t, "passenger-status", "passenger"), instance.Name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestAsyncQueue: while a fiber computes or blocks, Async::HTTP::Server, which Falcon uses, accepts no connection.
// Requests then wait in the kernel's accept queue. ddtop must report the same length of this queue as ss.
func TestAsyncQueue(t *testing.T) {
	async := servertest.StartRack(t, "async", "async_http")
	port := async.URL[strings.LastIndexByte(async.URL, ':')+1:]
	s := openLive(t, async.PIDs[0])
	send(t, port, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
	until(t, "the event loop is blocked", func() bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(async.Log), "held"))
		return err == nil
	})
	for range 3 {
		send(t, port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	until(t, "three wait", func() bool { return lengthAt(t, port) == 3 })
	q := queuesOf(t, s, "three wait", func(q *sampler.Queues) bool { n, known := q.Backlog(); return known && n == 3 })
	if l := q.Accept.Listeners; len(q.Pools) > 0 || len(l) != 1 || l[0].Address != "127.0.0.1:"+port ||
		fmt.Sprintf("%d of %d", l[0].Queued, l[0].Limit) != waitingAt(t, port) {
		t.Errorf("%+v; ss says %s", q, waitingAt(t, port))
	}
}

// TestPumaClusterQueues: ddtop must report the threads of each worker process of a Puma cluster separately. The accept
// queue is the same for all workers.
func TestPumaClusterQueues(t *testing.T) {
	puma := servertest.StartPuma(t, "-t", "2:2", "-w", "2")
	var busy map[int]pumaStats
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Puma said at last: %+v", busy)
		}
	})
	// A worker can take a third request while the other worker still has a free thread. So the test does not know in
	// advance how many requests occupy all threads. It sends one at a time until all threads are busy. By then, some
	// requests already wait.
	const threads, wait = 4, 5
	sent := 0
	until(t, "all threads are busy", func() bool {
		busy = controlOf(t, puma.Control)
		serving, arrived := int64(0), lengthAt(t, puma.Port)
		for _, pid := range puma.PIDs {
			x, ok := busy[pid]
			if !ok || x.Running != 2 {
				return false
			}
			serving += 2 - x.Capacity
			arrived += x.Backlog
		}
		if arrived += serving; arrived == int64(sent) && serving < threads && sent < threads+wait {
			send(t, puma.Port, slowRequest+"\r\n")
			sent++
		}
		return serving == threads
	})
	for ; sent < threads+wait; sent++ {
		send(t, puma.Port, slowRequest+"\r\n")
	}
	waiting := func(of ...int) int64 {
		said, n := controlOf(t, puma.Control), lengthAt(t, puma.Port)
		for _, pid := range of {
			n += said[pid].Backlog
		}
		return n
	}
	until(t, "five wait", func() bool { return waiting(puma.PIDs...) == 5 })
	for _, pid := range puma.PIDs {
		all := waiting(pid)
		q := queuesOf(t, openLive(t, pid), "all wait", func(q *sampler.Queues) bool { n, known := q.Backlog(); return known && n == all })
		if want := []sampler.Pool{{Kind: sampler.PoolPuma, Threads: 2, Busy: 2, Max: 2, Queued: all - lengthAt(t, puma.Port), Clients: 0}}; !slices.Equal(q.Pools, want) {
			t.Errorf("worker %d: %+v", pid, q.Pools)
		}
	}
}

// TestSidekiqPool: while Sidekiq has no jobs, ddtop must report a pool of four threads, none of them busy.
func TestSidekiqPool(t *testing.T) {
	sidekiq := servertest.StartSidekiq(t)
	s := openLive(t, sidekiq.PID)
	idle := []sampler.Pool{{Kind: sampler.PoolSidekiq, Threads: 4, Busy: 0, Max: -1, Queued: -1, Clients: -1}}
	queuesOf(t, s, "four idle threads", func(q *sampler.Queues) bool { return slices.Equal(q.Pools, idle) })
}
