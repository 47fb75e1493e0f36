package ruby

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/work"
)

// seen is the result of one reading of a thread. The reading was made between fromNS and toNS.
type seen struct {
	fromNS, toNS int64
	tid          int32
	work         sampler.Work
	statement    string
}

func monotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

// notNow reports whether a tick failed for a reason that may have ended before the next tick. Either the lists of
// threads changed while they were read, or ddtop had no CPU for a long time.
func notNow(err error) bool { return errors.Is(err, ErrListTorn) || errors.Is(err, errLongWalk) }

// watchServing reads a process's threads until done is true. It returns a result for each thread and tick in which the
// thread's stack was read.
func watchServing(t *testing.T, pid int, done *atomic.Bool) (out []seen) {
	rd := openReaderWith(t, pid, Options{Values: true, Now: monotonic})
	plain := openReaderWith(t, pid, Options{Now: monotonic}) // a Reader that reads no values
	var s sampler.Sample
	for !done.Load() {
		for _, r := range []*Reader{rd, plain} {
			from := monotonic()
			err := r.Read(sampler.StackTick, &s)
			to := monotonic()
			if notNow(err) {
				continue
			} else if err != nil {
				t.Error(err)
				return out
			}
			for i := range s.Threads {
				th := &s.Threads[i]
				if th.Quality&sampler.StackFresh == 0 || th.Quality&sampler.StackFailed != 0 {
					continue
				}
				if r == rd {
					out = append(out, seen{from, to, th.TID, r.dict.Work(th.Serving.Work), ""})
				} else if said := r.dict.Statement(th.Serving.Statement); said != "" {
					out = append(out, seen{from, to, th.TID, sampler.Work{}, said})
				}
			}
		}
		time.Sleep(time.Millisecond)
	}
	return out
}

// ask makes several clients request pages at the same time, until enough requests have been answered.
func ask(t *testing.T, url string, clients, requests int, path func(n int) (method, path string)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			// Each request uses a connection of its own. On a full machine, the server thin (with threads) can mistake
			// a part of one request for the next request on the same connection.
			client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
			for {
				n := int(next.Add(1))
				if n > requests {
					return
				}
				method, path := path(n)
				request, err := http.NewRequest(method, url+path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode >= 400 {
					t.Errorf("%s %s: %s", method, path, answer.Status)
				}
			}
		})
	}
	wg.Wait()
}

// checkServing compares the requests and jobs that ddtop has reported with the application's log.
func checkServing(t *testing.T, log []servertest.Logged, all []seen) {
	t.Helper()
	byID, byThread, statements := map[string]*servertest.Logged{}, map[int32][]*servertest.Logged{}, map[int32][]*servertest.Logged{}
	for i := range log {
		l := &log[i]
		if l.Kind == "S" {
			statements[l.TID] = append(statements[l.TID], l)
			continue
		}
		byID[l.ID] = l
		byThread[l.TID] = append(byThread[l.TID], l)
	}
	for _, list := range byThread {
		slices.SortFunc(list, func(a, b *servertest.Logged) int { return int(a.FromNS - b.FromNS) })
	}
	numbers, last := map[string]sampler.WorkNumber{}, map[string]sampler.Work{}
	within, shown, said, asked, told := 0, 0, 0, 0, 0
	// Several readings of the same request are not independent. So the share of right readings uses only one reading of
	// each request, chosen at random.
	readings, showed := map[*servertest.Logged]int{}, map[*servertest.Logged]bool{}
	for _, s := range all {
		if t.Failed() {
			return // report only the first failure
		}
		if s.statement != "" {
			said++
			// The logged statement can be longer than the reported one, because Rails appends to some statements before
			// it sends them.
			if !slices.ContainsFunc(statements[s.tid], func(l *servertest.Logged) bool { return strings.HasPrefix(work.SQL(l.What, false), s.statement) }) {
				t.Errorf("thread %d: no statement logged is %q", s.tid, s.statement)
			}
			for _, l := range statements[s.tid] {
				if l.FromNS < s.fromNS && s.toNS < l.ToNS {
					if told++; work.SQL(l.What, false) != s.statement {
						t.Errorf("thread %d: said to ask %q while it asked %q", s.tid, s.statement, l.What)
					}
				}
			}
			continue
		}
		// inside is the request that the thread served during the whole reading, according to the application's log.
		var inside *servertest.Logged
		for _, l := range byThread[s.tid] {
			if l.FromNS < s.fromNS && s.toNS < l.ToNS {
				inside = l
			}
		}
		counts := false
		if inside != nil {
			within++
			readings[inside]++
			if counts = rand.IntN(readings[inside]) == 0; counts {
				showed[inside] = false
			}
		}
		for _, l := range statements[s.tid] {
			if l.FromNS < s.fromNS && s.toNS < l.ToNS {
				asked++
			}
		}
		if s.work.Number == 0 {
			continue
		}
		l := byID[idOf(&s.work)]
		if l == nil {
			if !strings.HasSuffix(idOf(&s.work), "/report?ms=0") && !strings.HasPrefix(idOf(&s.work), "/orders/1?") {
				t.Errorf("thread %d serves %q, of which nothing is logged", s.tid, s.work.Values)
			}
			continue
		}
		if l.TID != s.tid && s.tid != 0 { // a thread that has ended has no TID
			t.Errorf("%q is said to be of thread %d, and was of %d", s.work.Values, s.tid, l.TID)
		}
		if inside != nil {
			showed[inside] = showed[inside] || counts
			if shown++; inside != l {
				t.Errorf("thread %d: said to serve %q while it served %q", s.tid, s.work.Values, inside.ID)
			}
		}
		// The reading can also belong to a request l that has just ended. It cannot if the thread began a later request
		// before the reading.
		for _, other := range byThread[l.TID] {
			if other.FromNS > l.FromNS && other.FromNS < s.fromNS {
				t.Errorf("thread %d: said to serve %q after it had begun %q", s.tid, s.work.Values, other.ID)
				break
			}
		}
		if old, ok := numbers[l.ID]; ok && old != s.work.Number {
			t.Errorf("%q is two requests", l.ID)
		}
		numbers[l.ID] = s.work.Number
		last[l.ID] = s.work
		if s.work.BeforeNS > l.FromNS {
			t.Errorf("%q: its thread is said to have been without it at %d, and it began at %d", l.ID, s.work.BeforeNS, l.FromNS)
		}
		if s.work.SinceNS > s.toNS {
			t.Errorf("%q was first seen after it was seen", l.ID)
		}
	}
	for id, w := range last {
		// ddtop knows the route only after the framework has found it. If ddtop last saw a request before that, it
		// reports the path as the name.
		if l := byID[id]; w.Endpoint != l.What && !strings.Contains(w.Endpoint, "/") {
			t.Errorf("%q is said to be %q, and is %q", id, w.Endpoint, l.What)
		}
	}
	named := 0
	for id, w := range last {
		if w.Endpoint == byID[id].What {
			named++
		}
	}
	rubytest.Report(t, "%d logged, %d seen, %d with their route; %d readings in a request, %d said so; %d in a statement, %d statements said, %d in it",
		len(byID), len(last), named, within, shown, asked, said, told)
	so := 0
	for _, yes := range showed {
		if yes {
			so++
		}
	}
	if within == 0 || so < odds.AtLeast(len(showed), .9) {
		t.Errorf("of %d readings within a request each %d said so, of all %d %d", len(showed), so, within, shown)
	}
	if named < odds.AtLeast(len(last), .8) {
		t.Errorf("of %d requests %d were said with their route", len(last), named)
	}
}

// idOf returns a text that identifies a request or a job in the log: the path with its query, or the class with its
// arguments.
func idOf(w *sampler.Work) string {
	if w.Kind == sampler.WorkJob {
		return w.Endpoint + " " + w.Values
	}
	return w.Values
}

// TestServers: for real servers, ddtop reports the same requests as the application's log.
func TestServers(t *testing.T) {
	for _, c := range []struct{ server, app string }{
		{"puma", "plain"}, {"puma", "sinatra"}, {"puma cluster", "plain"}, {"webrick", "plain"}, {"webrick", "sinatra"}, {"unicorn", "plain"},
		{"unicorn", "sinatra"}, {"thin", "plain"}, {"thin", "sinatra"}, {"puma", "grape"}, {"passenger", "plain"},
		{"passenger", "sinatra"},
	} {
		t.Run(c.server+" "+c.app, func(t *testing.T) {
			if c.server != "puma" || c.app != "sinatra" {
				rubytest.Long(t)
			}
			r := servertest.StartRack(t, c.server, c.app)
			var done atomic.Bool
			var wg sync.WaitGroup
			list := make([][]seen, len(r.PIDs))
			for i, pid := range r.PIDs {
				wg.Go(func() { list[i] = watchServing(t, pid, &done) })
			}
			ask(t, r.URL, 4, 200, func(n int) (string, string) {
				if n%5 == 0 {
					return "GET", fmt.Sprintf("/report?ms=%d&n=%d", n%7*5, n)
				}
				return "GET", fmt.Sprintf("/orders/%d?ms=%d", n, n%9*5)
			})
			done.Store(true)
			wg.Wait()
			checkServing(t, servertest.RequestLog(t, r.Log), slices.Concat(list...))
		})
	}
}

// TestServingRails is like TestServers, with Rails on a cluster of Puma workers and PostgreSQL.
func TestServingRails(t *testing.T) {
	rubytest.Long(t)
	r := servertest.StartLoggingRails(t, 2, 3)
	var done atomic.Bool
	var wg sync.WaitGroup
	list := make([][]seen, len(r.Workers))
	for i, pid := range r.Workers {
		wg.Go(func() { list[i] = watchServing(t, pid, &done) })
	}
	ask(t, r.URL, 5, 300, func(n int) (string, string) {
		switch n % 10 {
		case 0, 1, 2:
			return "GET", fmt.Sprintf("/orders?page=%d&n=%d", n%40, n)
		case 3, 4, 5:
			return "GET", fmt.Sprintf("/orders/%d?n=%d", 1+n%2000, n)
		case 6:
			return "POST", fmt.Sprintf("/orders?customer_id=%d&n=%d", 1+n%200, n)
		case 7:
			return "GET", fmt.Sprintf("/report?n=%d", n)
		}
		return "GET", fmt.Sprintf("/stock?n=%d", n)
	})
	done.Store(true)
	wg.Wait()
	checkServing(t, servertest.RequestLog(t, r.Log), slices.Concat(list...))
}

// TestServingSidekiq is like TestServers, with jobs of Sidekiq and commands of Redis.
func TestServingSidekiq(t *testing.T) {
	rubytest.Long(t)
	q := servertest.StartSidekiq(t)
	var done atomic.Bool
	var wg sync.WaitGroup
	var list []seen
	commands := map[string]int{}
	wg.Go(func() {
		for _, s := range watchServing(t, q.PID, &done) {
			if s.statement != "" {
				commands[s.statement]++
			} else {
				list = append(list, s)
			}
		}
	})
	q.Push(1, 100)
	for {
		jobs := 0
		for _, l := range servertest.RequestLog(t, q.Log) {
			if l.Kind == "J" {
				jobs++
			}
		}
		if jobs >= 202 {
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	done.Store(true)
	wg.Wait()
	checkServing(t, servertest.RequestLog(t, q.Log), list)
	if commands["BRPOP"] == 0 || commands["BLPOP"] == 0 {
		t.Errorf("commands: %v", commands)
	}
	for command := range commands {
		if command != work.Command(command) && !strings.Contains(command, " more") {
			t.Errorf("a command is %q", command)
		}
	}
	rubytest.Report(t, "commands: %v", commands)
}
