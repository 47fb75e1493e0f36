package ruby

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/work"
)

// statementSecret is a text in the literals or arguments of every statement of rack/statements.rb. ddtop may show this
// text only if it reads values.
const statementSecret = "hunter2secret"

// serviceDelay is how long the test's service waits before it answers. It must be longer than the time that Ruby needs
// to send a statement on a slow and full machine.
const serviceDelay = 20 * time.Millisecond

// askedReadings is how often the test must see a thread with a statement, for each library.
const askedReadings = 2000

// TestStatements: for each library, ddtop reports the same statements as the program logs, but without literals and
// arguments. The program calls the library itself.
func TestStatements(t *testing.T) {
	slowly := func(start func(testing.TB) string) func(testing.TB) string {
		return func(t testing.TB) string { return servertest.Slow(t, start(t), serviceDelay) }
	}
	for _, c := range []struct {
		library, pkg string
		port         func(testing.TB) string
	}{
		{"pg", "ruby-pg", servertest.Postgres},
		{"mysql2", "ruby-mysql2", servertest.MariaDB},
		{"sqlite3", "ruby-sqlite3", func(testing.TB) string { return "" }},
		{"sequel", "ruby-sequel", servertest.Postgres},
		{"redis", "ruby-redis", slowly(func(t testing.TB) string { return servertest.Redis(t, statementSecret) })},
		{"dalli", "ruby-dalli", slowly(servertest.Memcached)},
		{"net/http", "ruby", func(t testing.TB) string {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(serviceDelay) }))
			t.Cleanup(s.Close)
			return s.URL[strings.LastIndexByte(s.URL, ':')+1:]
		}},
	} {
		t.Run(c.library, func(t *testing.T) {
			rubytest.Long(t)
			pid, log := servertest.StartStatements(t, c.library, c.pkg, c.port(t))
			list := watchStatements(t, pid, false)
			checkStatements(t, servertest.RequestLog(t, log), list)
			if c.library == "dalli" {
				return // for this library, ddtop reads only the operation's name
			}
			raw := watchStatements(t, pid, true)
			for _, s := range raw {
				if strings.Contains(s.statement, statementSecret) {
					return
				}
			}
			rubytest.TooSeldom(t, "with values no statement of %d has its literals and arguments", len(raw))
		})
	}
}

// watchStatements reads a process until it has seen threads with statements often enough.
func watchStatements(t *testing.T, pid int, values bool) (out []seen) {
	rd := openReaderWith(t, pid, Options{Values: values, Now: monotonic})
	var s sampler.Sample
	want := askedReadings
	if values {
		want /= 10
	}
	for len(out) < want {
		from := monotonic()
		err := rd.Read(sampler.StackTick, &s)
		to := monotonic()
		if notNow(err) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for i := range s.Threads {
			th := &s.Threads[i]
			if info, _ := rd.dict.Thread(th.ID); !strings.HasPrefix(info.Name, "asker ") ||
				th.Quality&sampler.StackFresh == 0 || th.Quality&sampler.StackFailed != 0 {
				continue
			}
			out = append(out, seen{from, to, th.TID, sampler.Work{}, rd.dict.Statement(th.Serving.Statement)})
		}
		time.Sleep(time.Millisecond)
	}
	return out
}

// checkStatements compares the reported statements with the program's log, thread by thread.
func checkStatements(t *testing.T, log []servertest.Logged, list []seen) {
	t.Helper()
	logged := map[int32][]*servertest.Logged{}
	for i := range log {
		logged[log[i].TID] = append(logged[log[i].TID], &log[i])
	}
	// Several readings of the same statement are not independent. So the test uses only one reading of each statement,
	// chosen at random.
	readings, told := map[*servertest.Logged]int{}, map[*servertest.Logged]bool{}
	quiet := 0
	for _, s := range list {
		if strings.Contains(s.statement, statementSecret) {
			t.Errorf("%q says the secret", s.statement)
		}
		// during is the logged statement that ran for the whole reading. can is true if the statement that ddtop
		// reports may be right: it ran at least during a part of the reading.
		var during *servertest.Logged
		can := s.statement == ""
		for _, l := range logged[s.tid] {
			if l.FromNS < s.fromNS && s.toNS < l.ToNS && (during == nil || during.FromNS < l.FromNS) {
				during = l
			}
			can = can || l.FromNS < s.toNS && s.fromNS < l.ToNS && l.Kind != "N" && s.statement == said(l)
		}
		switch {
		case during == nil:
			// The program logs a statement only after it has ended. So the log lacks a statement that still runs while
			// the test reads the log. A reading can also begin before such a statement and end during it.
			known := logged[s.tid]
			if !can && len(known) > 0 && s.toNS < known[len(known)-1].ToNS {
				t.Errorf("said to ask %q, which was not asked then", s.statement)
			}
		case during.Kind == "N":
			quiet++
			if s.statement != "" {
				t.Errorf("said to ask %q during %q", s.statement, during.What)
			}
		case during.Kind == "M":
			if !can {
				t.Errorf("said to ask %q while it asked %q", s.statement, said(during))
			}
		default:
			if readings[during]++; rand.IntN(readings[during]) == 0 {
				told[during] = s.statement != ""
			}
			if !can {
				t.Errorf("said to ask %q while it asked %q", s.statement, said(during))
			}
		}
		if t.Failed() {
			return // report only the first failure
		}
	}
	asked, right := map[string]int{}, map[string]int{}
	for l, ok := range told {
		asked[said(l)]++
		if ok {
			right[said(l)]++
		}
	}
	for what, n := range asked {
		rubytest.Report(t, "%q: asked %d times while it was read, %d said so", what, n, right[what])
		if right[what] < odds.AtLeast(n, .5) {
			t.Errorf("%q: asked %d times while it was read, %d said so", what, n, right[what])
		}
	}
	rubytest.Report(t, "%d readings in which there was nothing to be said", quiet)
}

// said returns the text that ddtop should show for a logged statement.
func said(l *servertest.Logged) string {
	if s := work.SQL(l.What, false); strings.HasPrefix(s, "SELECT") || strings.HasPrefix(s, "WITH") {
		return s
	}
	return l.What
}

// TestStatementsRace: threads send thousands of statements a second while objects are freed and moved. ddtop never
// reports another thread's statement for a thread, or an older statement after a newer one.
func TestStatementsRace(t *testing.T) {
	rubytest.OftenEnough(t)
	pid, _ := servertest.StartStatements(t, "pg", "ruby-pg", servertest.Postgres(t), "race")
	rd := openReaderWith(t, pid, Options{Values: true})
	var s sampler.Sample
	want, found, readings := raceSamples(t)/4, 0, 0
	last, deadline := map[sampler.ThreadID]int{}, time.Now().Add(raceTime)
	for found < want && time.Now().Before(deadline) {
		if err := rd.Read(sampler.StackTick, &s); notNow(err) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for i := range s.Threads {
			th := &s.Threads[i]
			info, _ := rd.dict.Thread(th.ID)
			if !strings.HasPrefix(info.Name, "asker ") || th.Quality&sampler.StackFresh == 0 || th.Quality&sampler.StackFailed != 0 {
				continue
			}
			readings++
			said := rd.dict.Statement(th.Serving.Statement)
			if said == "" {
				continue
			}
			found++
			number, ok := strings.CutPrefix(said, "SELECT '"+info.Name+"', ")
			n, err := strconv.Atoi(number)
			if !ok || err != nil || n < last[th.ID] {
				t.Fatalf("after %d: thread %q is said to ask %q, and asked the %d. before", found, info.Name, said, last[th.ID])
			}
			last[th.ID] = n
		}
	}
	rubytest.Report(t, "%d readings, %d with a statement", readings, found)
	if found < want {
		rubytest.TooSeldom(t, "%d readings with a statement, want %d", found, want)
	}
}
