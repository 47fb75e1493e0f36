package findingstest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler/live"
)

// raised describes the finding that a program of testdata/raise must raise. The program has the name of the finding.
type raised struct {
	// words are texts that the finding's title or text must contain.
	words []string
	// pattern is a regular expression that the finding's text must match. It is set if the field words does not check
	// the text enough.
	pattern string
	// rules are lower thresholds, with which a slow finding is raised sooner.
	rules []string
	// never are findings that ddtop must not raise, although the program resembles their fault.
	never []string
	// alone is true for a program that computes. Such programs run one after the other, because they would slow each
	// other down.
	alone bool
	// child is true if the finding is about the program's child process.
	child bool
	// prepare, if not nil, is called before the program begins. It sets the machine up, or skips the test.
	prepare func(t *testing.T, p *program)
}

var raises = map[string]raised{
	"frozen": {words: []string{"Process is stopped", "a signal (SIGSTOP, ctrl-z) or a debugger keeps all of its threads from running for "},
		pattern: ` for \d[\d.]* s`},
	"deadlock": {words: []string{"left waits for Mutex", "held by right", "right waits for Mutex", "held by left"}, never: []string{"lock_convoy"}},
	// If ddtop cannot read all registers, the finding names only the library libffi, and not the function in it.
	"lock_nobody_holds": {words: []string{"1 thread waits for ever for a lock of C code in ", "; resolver in "},
		pattern: ` in (ffi_call \[libffi\]|libffi), held at fork`, never: []string{"lock_convoy"}},
	"ending": {words: []string{"Program does not end", "its main thread ended", "waits for 1 other thread; stubborn: sleeping", "Spool#flush"}},
	"never_booted": {words: []string{"Worker never booted: it has run no Ruby code since process ", " in Master#spawn_worker → "}, child: true,
		never: []string{"gvl_stuck", "gvl_hog"}},
	"gvl_stuck":     {words: []string{"device", "slept in the kernel", "kept the GVL"}, alone: true},
	"log_blocked":   {words: []string{"write()", "3 threads wait behind it"}},
	"cpu_starved":   {words: []string{"had no CPU for", "; other processes take "}, never: []string{"gvl_stuck"}, alone: true},
	"regex_runaway": {words: []string{"parser has been matching one at", "script.rb:"}, alone: true},
	"spinning": {words: []string{"Spins without progress", "threads have been at one place each", "in Poller#run", "times per second"},
		alone: true},
	"lost_wakeup": {words: []string{"Lost wake-up", "2 threads wait for Queue 0x", "in Mailer#run → ", "Queue#pop"}},
	"loop_blocked": {words: []string{"Event loop blocked", "reactor has run one fiber for", "in Ledger#book",
		"10 other fibers"}},
	"barrier_stuck": {words: []string{"Ractors wait for one: ", "stood still for", "; device does not stop in ", "Kernel#syscall"}},
	"queue_grows": {words: []string{"Queue grows: the Queue @jobs has grown from ", " per second; 1 thread that took from it has ended (mailer-1, by Mailer::Refused)",
		"; 1 thread takes from it: mailer-0 in "}, rules: []string{"queue_grows.time=4s"}},
	"lock_convoy": {words: []string{"threads wait for Mutex", "held by", "(worker-"}, never: []string{"deadlock", "gvl_stuck"}},
	"lock_starved": {pattern: `^writer had Mutex 0x\w+ in \d+ % of the samples with a holder, now in .*\(script\.rb:\d+\); it releases and takes it again ` +
		`about [\d.]+ times per second, for about [\d.]+ \S+ each; [12] threads? waits?, woken in vain and not seen elsewhere for up to `},
	"load_wait": {words: []string{"1 thread waits until a file is loaded", "; loader is loading it, at slow.rb:2, and is waiting for "},
		never: []string{"deadlock"}},
	"pool_wait":     {words: []string{"for a connection"}},
	"gc_pause":      {words: []string{"kept all Ruby code from running"}, rules: []string{"gc_pause.pause=30ms"}, alone: true},
	"gc_pressure":   {words: []string{"of all Ruby work"}, never: []string{"gvl_stuck"}, alone: true},
	"gc_majors":     {words: []string{"major collections", "threads wait"}, rules: []string{"gc_majors.for=1s"}, alone: true},
	"gvl_hog":       {words: []string{"reports"}, never: []string{"lock_convoy", "db_slow"}, alone: true},
	"gvl_saturated": {words: []string{"held", "threads wait"}, alone: true},
	// The finding has the number of live objects only if a full garbage collection happened after ddtop attached.
	"memory_grows": {pattern: `^\d+ MB have become \d+ MB in the last [\dms. ]+ \([\d.]+ MB per second\), most of it [^;]*(; live objects [\d,]+ to [\d,]+ in ` +
		`\d+ full collections?)?; most objects are made in Cache#put.*\(script\.rb:\d+\)`, words: []string{"most objects are made in "}, rules: []string{"memory_grows.time=9s"}},
	"memory_stall": {words: []string{"major page faults/s"}, alone: true, prepare: limitMemory},
	"dns_slow":     {words: []string{"threads resolve a name"}, never: []string{"http_slow"}, alone: true, prepare: silentResolver},
	"child_wait":   {words: []string{"2 threads wait for child processes"}},
	"sleep_wait": {words: []string{"Mailer#deliver"}, pattern: `^requests or jobs spend \d+ % of the busy time in sleep; now [1-4] threads?, ` +
		`the longest for [≤≥]?[\d.]+ \S+ in Mailer#deliver → Kernel#sleep \(script\.rb:\d+\)$`},
	"thread_wait": {words: []string{"AuditLog#<<"}, never: []string{"deadlock", "io_busy"}, pattern: `^requests or jobs spend \d+ % of the busy ` +
		`time waiting at a full queue; now [1-4] threads?, the longest for [≤≥]?[\d.]+ \S+ in AuditLog#<< → .*SizedQueue#push \(script\.rb:\d+\): audit` +
		`(, the other thread in AuditLog, is| takes from it and is) .* in .*AuditLog#initialize.*\(script\.rb:\d+\)$`},
	"redis_slow": {words: []string{":6379 Redis"}, never: []string{"db_slow", "http_slow"}},
	"db_slow":    {words: []string{":5432 PostgreSQL", "4 threads"}, never: []string{"redis_slow", "http_slow"}},
	"http_slow":  {words: []string{":443 HTTPS"}, never: []string{"redis_slow", "db_slow"}},
	// On a busy machine the program's service may lack a CPU. The finding's text is then about slow calls.
	"io_busy":      {words: []string{"4 threads (worker)", ":443 HTTPS", "calls per second"}},
	"stuck_thread": {words: []string{"worker has not moved", ":8080"}, rules: []string{"stuck_thread.unchanged=2s"}},
	// All 70 new threads were started at this place in the program. ddtop may not have read all stacks when it raises
	// the finding, so "at least" and 80 % are enough.
	"thread_leak": {pattern: `^2 threads have become 72; (70|at least (5[6-9]|6\d|70)) were started in Client#connect \(script\.rb:\d+\)$`},
	"all_busy":    {words: []string{"4 ", "threads are busy 100 %"}, rules: []string{"all_busy.for=1s"}},
}

// raiseTime limits how long the tests wait for a finding. Most findings take 3 to 5 s, but on a busy machine much
// longer.
const raiseTime = 2 * time.Minute

// seenSamples is the number of samples after which the test tells a program that ddtop watches it. Some programs wait
// for this before they begin their fault.
const seenSamples = 100

// TestRaised: each rule has a program that must raise its finding. This test runs the programs that compute little,
// several at the same time. TestRaisedAlone runs the other programs.
func TestRaised(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	programs := names(t, "raise")
	for _, id := range findings.RuleIDs() {
		if !slices.Contains(programs, id) {
			t.Errorf("no program raises %s: there is no testdata/raise/%s.rb", id, id)
		}
	}
	for _, id := range programs {
		if _, ok := raises[id]; !ok {
			t.Errorf("testdata/raise/%s.rb has no row in raises", id)
		}
	}
	for id, want := range raises {
		if want.alone {
			continue
		}
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				if id == "lock_nobody_holds" && !r.AtLeast(3, 1) {
					rubytest.Skip(t, "syslog of Debian's glibc 2.31 writes before it takes its lock")
				}
				raise(t, load(t, r, "raise/"+id), id, want)
			})
		})
	}
}

// TestRaisedAlone runs the programs that compute, one after the other, and checks that each raises its finding. Rules
// about load report nothing in a young program. So all programs start at the beginning of the test, and wait for their
// turn.
func TestRaisedAlone(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	rubies := chosen(t)
	loaded := make(map[string]*program)
	for id, want := range raises {
		if want.alone {
			for _, r := range rubies {
				loaded[id+" "+r.Name] = load(t, r, "raise/"+id)
			}
		}
	}
	for id, want := range raises {
		if !want.alone {
			continue
		}
		t.Run(id, func(t *testing.T) {
			each(t, func(t *testing.T, r rubytest.Ruby) { raise(t, loaded[id+" "+r.Name], id, want) })
		})
	}
}

// raise lets a program begin its work, after the function load has started the program. It checks that the program
// raises its finding.
func raise(t *testing.T, p *program, id string, want raised) {
	t.Helper()
	defer p.Stop(t)
	if want.prepare != nil {
		want.prepare(t, p)
	}
	p.begin(t)
	pid := p.PID
	if want.child {
		pid = forked(t, p, 1, isAny)[0]
	}
	// When ddtop first raises the finding, words about the present ("now 4 threads") may be missing. So the test waits
	// until the finding has all words.
	s := watch(t, pid, rulesWith(t, want.rules...), raiseTime, says(id, want.words), func(_ *live.Source, n int) {
		if n == seenSamples {
			p.Send(t, "seen")
		}
	})
	checkRaised(t, s, id, want)
}

// says returns a condition for watch: a finding has this ID, and its title or text contains each of the words.
func says(id string, words []string) func(report.StatFinding) bool {
	return func(f report.StatFinding) bool {
		return f.ID == id && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(f.Title+": "+f.Text, w) })
	}
}

func checkRaised(t *testing.T, s *seen, id string, want raised) {
	t.Helper()
	f, ok := s.finding(id)
	if !ok {
		rubytest.TooSeldomNow(t, "not raised in %v; seen: %v", raiseTime, s)
	}
	for _, w := range want.words {
		if !strings.Contains(f.Title+": "+f.Text, w) {
			t.Errorf("%q does not say %q", f.Text, w)
		}
	}
	if !regexp.MustCompile(want.pattern).MatchString(f.Text) {
		t.Errorf("%q does not match %s", f.Text, want.pattern)
	}
	for _, other := range want.never {
		if f, ok := s.finding(other); ok {
			t.Errorf("%s is raised too: %s", other, f.Text)
		}
	}
	t.Logf("%.1f s: %s: %s", float64(s.atNS[id])/1e9, f.Title, f.Text)
}

// TestSilentService: a service does not answer its clients at all, although services of its kind normally do. ddtop
// must report it, although ddtop has only seen the clients wait. Clients that only read a stream wait in the same way.
// Only the kind of service shows the difference.
func TestSilentService(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := start(t, r, "silent/memcached")
		found := map[string]bool{}
		s := watch(t, p.PID, rulesWith(t, "stuck_thread.unchanged=4s"), raiseTime, func(f report.StatFinding) bool {
			found[f.ID] = true
			return found["http_slow"] && found["stuck_thread"]
		}, nil)
		checkRaised(t, s, "http_slow", raised{words: []string{":11211 memcached", "3 threads"}})
		checkRaised(t, s, "stuck_thread", raised{words: []string{"worker-", ":11211 memcached"}})
	})
}

// firstSecond is the number of ticks in one second, plus askEvery. The reason for askEvery is that the test reads the
// findings only every askEvery samples.
const firstSecond = 1000 + askEvery

// TestWithinTheFirstSecond: ddtop finds a deadlock, a queue for one lock and a stalled holder of the GVL. It must find
// each within as many ticks as it makes in one second.
func TestWithinTheFirstSecond(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	ids := []string{"deadlock", "lock_convoy", "gvl_stuck"}
	loaded := make(map[string]*program)
	for _, r := range chosen(t) {
		for _, id := range ids {
			loaded[id+" "+r.Name] = load(t, r, "raise/"+id)
		}
	}
	each(t, func(t *testing.T, r rubytest.Ruby) {
		for _, id := range ids {
			t.Run(id, func(t *testing.T) {
				p := loaded[id+" "+r.Name]
				defer p.Stop(t)
				p.begin(t)
				before := rubytest.RunDelay(t, p.PID)
				s := watch(t, p.PID, nil, raiseTime, is(id), nil)
				f, ok := s.finding(id)
				// On a busy machine ddtop may not reach the sampling rate that the test asks for. In this case the test
				// checks the time instead of the number of ticks. If the program's threads lacked a CPU, the fault may
				// have begun later. So the test adds the time without a CPU to the limit.
				lacked := rubytest.RunDelay(t, p.PID) - before
				if !ok || s.tick[id] > firstSecond && s.atNS[id] > int64(1100*time.Millisecond+lacked) {
					rubytest.TooSeldom(t, "raised (%v) at tick %d, after %v", ok, s.tick[id], time.Duration(s.atNS[id]))
				}
				t.Logf("at tick %d, after %v: %s", s.tick[id], time.Duration(s.atNS[id]), f.Text)
			})
		}
	})
}
