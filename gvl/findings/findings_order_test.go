package findings

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// TestOrder: standstills (findings about threads that make no progress) come first, then causes, then symptoms. Among
// findings of the same rank, the more severe come first, then the findings that explain more of the time.
func TestOrder(t *testing.T) {
	type raised struct {
		id       string
		severity Severity
		explains float64
	}
	for _, c := range []struct {
		name   string
		raised []raised
		want   []string
	}{
		{"a much larger cause of equal severity", []raised{{"cpu_starved", SeverityWarn, .1}, {"gc_pressure", SeverityWarn, .6}},
			[]string{"gc_pressure", "cpu_starved"}},
		{"a smaller one", []raised{{"cpu_starved", SeverityWarn, .4}, {"gc_pressure", SeverityWarn, .2}},
			[]string{"cpu_starved", "gc_pressure"}},
		{"a cause before what it explains, however severe", []raised{{"db_slow", SeverityWarn, .9}, {"pool_wait", SeverityCrit, .3}},
			[]string{"db_slow", "pool_wait"}},
		{"a severe symptom before what explains too little of it", []raised{{"gvl_hog", SeverityWarn, .3}, {"gvl_saturated", SeverityCrit, .8}},
			[]string{"gvl_saturated", "gvl_hog"}},
		{"the collector before the saturation that it explains", []raised{{"gvl_saturated", SeverityCrit, .8}, {"gc_pressure", SeverityWarn, .35}},
			[]string{"gc_pressure", "gvl_saturated"}},
		{"a chain", []raised{{"pool_wait", SeverityCrit, .8}, {"gvl_saturated", SeverityWarn, .6}, {"cpu_starved", SeverityWarn, .1}},
			[]string{"cpu_starved", "gvl_saturated", "pool_wait"}},
		{"what nothing explains stays before", []raised{{"regex_runaway", SeverityCrit, .1}, {"gvl_saturated", SeverityCrit, .8}, {"gc_pressure", SeverityWarn, .5}},
			[]string{"regex_runaway", "gc_pressure", "gvl_saturated"}},
		{"a cause before a symptom of equal severity", []raised{{"gvl_saturated", SeverityWarn, .8}, {"gvl_hog", SeverityWarn, .3}},
			[]string{"gvl_hog", "gvl_saturated"}},
		{"symptoms among themselves", []raised{{"gvl_saturated", SeverityWarn, .3}, {"stuck_thread", SeverityCrit, .1}, {"all_busy", SeverityWarn, .9}},
			[]string{"stuck_thread", "all_busy", "gvl_saturated"}},
		{"a deadlock before the pool that it empties", []raised{{"deadlock", SeverityCrit, .1}, {"pool_wait", SeverityCrit, .9}},
			[]string{"deadlock", "pool_wait"}},
		{"a blocked log before the pool", []raised{{"pool_wait", SeverityCrit, .9}, {"log_blocked", SeverityCrit, .2}, {"gvl_stuck", SeverityCrit, .1}},
			[]string{"gvl_stuck", "log_blocked", "pool_wait"}},
		{"equal in all, as the rules are listed", []raised{{"http_slow", SeverityWarn, .4}, {"redis_slow", SeverityWarn, .4}, {"dns_slow", SeverityWarn, .4}},
			[]string{"dns_slow", "redis_slow", "http_slow"}},
	} {
		f := newScene(t).f
		for _, r := range c.raised {
			i := slices.IndexFunc(rules[:], func(x rule) bool { return x.id == r.id })
			finding := Finding{ID: r.id, Severity: r.severity, steady: r.explains}
			f.states[i] = ruleState{raised: true, shown: true, explains: r.explains, last: hit{severity: r.severity}, worst: finding}
		}
		var current, all []string
		for _, x := range f.Current() {
			current = append(current, x.ID)
		}
		for _, x := range f.Raised() {
			all = append(all, x.ID)
		}
		if !slices.Equal(current, c.want) || !slices.Equal(all, c.want) {
			t.Errorf("%s: %v, of the run %v, want %v", c.name, current, all, c.want)
		}
	}
}

// explainedPairs lists each symptom with its causes, and the evidence that each cause needs. A number is a share: the
// cause must take at least this part of the symptom's time. "shared" means that cause and symptom must have the same
// thread or remote end. "own" means that the process itself must use at least half of the CPUs that it may use.
// "others" means that it must not.
const explainedPairs = `
gvl_stuck: memory_stall 0.5
memory_stall: memory_grows 0
gc_pause: memory_grows 0.5
gc_pressure: memory_grows 0.5
gc_majors: memory_grows 0.5
queue_grows: cpu_starved 0
gvl_hog: cpu_starved others
cpu_starved: regex_runaway 0.25, spinning 0.25, loop_blocked 0.25, gvl_hog own, gvl_saturated own
gvl_saturated: memory_stall 0.2, cpu_starved others, regex_runaway 0.5, gc_pause 0.2, gc_pressure 0.2, gc_majors 0.2, spinning 0.5, gvl_hog 0.5
pool_wait: cpu_starved 0.5, lock_starved 0.25, lock_convoy 0.25, gvl_hog 0.5, dns_slow 0.25, child_wait 0.25, sleep_wait 0.25, thread_wait 0.25, redis_slow 0.25, db_slow 0.25, http_slow 0.25, gvl_saturated 0.5
io_busy: cpu_starved 0, dns_slow shared, redis_slow shared, db_slow shared, http_slow shared
stuck_thread: lock_starved shared, lock_convoy shared, dns_slow shared, child_wait shared, redis_slow shared, db_slow shared, http_slow shared, ending shared, loop_blocked shared
all_busy: cpu_starved 0
`

// TestOrderOfAllPairs: if there is evidence that one of two findings causes the other, the cause comes first, however
// severe the symptom is. In all other pairs, standstills (no progress at all) come first. For the remaining pairs,
// severity, rank and the explained time decide.
func TestOrderOfAllPairs(t *testing.T) {
	want := make(map[[2]string]string)
	for _, line := range strings.Split(strings.TrimSpace(explainedPairs), "\n") {
		symptom, list, _ := strings.Cut(line, ": ")
		for _, x := range strings.Split(list, ", ") {
			by, evidence, _ := strings.Cut(x, " ")
			want[[2]string{by, symptom}] = evidence
		}
	}
	first := func(x, y *rule, xSevere, ySevere Severity, xExplains, yExplains float64, shared, own bool) string {
		f := newScene(t).f
		for i := range rules {
			r, thread := &rules[i], sampler.ThreadID(i+1)
			if shared {
				thread = 1
			}
			switch r {
			case x:
				f.states[i] = ruleState{raised: true, shown: true, explains: xExplains, last: hit{severity: xSevere, threads: []sampler.ThreadID{99, thread}, ownCPU: own}}
			case y:
				f.states[i] = ruleState{raised: true, shown: true, explains: yExplains, last: hit{severity: ySevere, threads: []sampler.ThreadID{thread}, ownCPU: own}}
			}
		}
		// A screen leaves out a finding that another one hides. This test only tests the order, so it uses all
		// findings.
		var list []Finding
		for _, i := range f.ranked() {
			list = append(list, f.finding(i))
		}
		list = tell(list, gvltest.Base)
		if list[0].Severity < list[1].Severity {
			t.Errorf("%s leads before %s, and is less severe", list[0].ID, list[1].ID)
		}
		return list[0].ID
	}
	// explains returns the evidence that one rule (the parameter by) needs to explain another rule, symptom. own is
	// true if the process itself uses much of the CPU time.
	explains := func(by, symptom *rule, own bool) (evidence string, is bool) {
		evidence, is = want[[2]string{by.id, symptom.id}]
		switch evidence {
		case "own":
			return "0", own
		case "others":
			return "0", !own
		}
		return evidence, is
	}
	pair := func(x, y *rule, own bool) {
		evidence, explained := explains(x, y, own)
		_, other := explains(y, x, own)
		if other && explained {
			t.Errorf("%s and %s explain each other", x.id, y.id)
		}
		if !explained {
			// There is no evidence that x or y causes the other, so the more severe finding comes first. But a
			// standstill, in which threads make no progress, always comes first.
			if !other && y.rank != rankStandstill {
				if got := first(x, y, SeverityCrit, SeverityWarn, .1, .9, true, own); got != x.id {
					t.Errorf("%s (crit) and %s (warn): %s leads", x.id, y.id, got)
				}
			}
			return
		}
		least, shared := .0, evidence == "shared"
		if !shared {
			var err error
			if least, err = strconv.ParseFloat(evidence, 64); err != nil {
				t.Fatal(err)
			}
		}
		if got := first(x, y, SeverityWarn, SeverityCrit, least*.8+.01, .8, shared, own); got != x.id {
			t.Errorf("%s explains %s, and does not lead: %s", x.id, y.id, got)
		}
		switch {
		case shared:
			if got := first(x, y, SeverityWarn, SeverityCrit, .9, .8, false, own); got != y.id {
				t.Errorf("%s leads before %s of another thread", got, y.id)
			}
		case least > 0:
			if got := first(x, y, SeverityWarn, SeverityCrit, least*.8-.01, .8, true, own); got != y.id && x.rank != rankStandstill {
				t.Errorf("%s leads before %s, of which it explains too little", got, y.id)
			}
		}
	}
	for i := range rules {
		for j := range rules {
			if i != j {
				pair(&rules[i], &rules[j], false)
				pair(&rules[i], &rules[j], true)
			}
		}
	}
	n := 0
	for _, list := range causes {
		n += len(list)
	}
	if n != len(want) {
		t.Errorf("%d pairs in causes, %d in this test", n, len(want))
	}
}

// TestDocsListTheCauses: docs/reference/findings.md lists all causes of each finding, with the evidence that each
// needs.
func TestDocsListTheCauses(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Causes before symptoms")
	for symptom, list := range causes {
		var want []string
		for _, c := range list {
			switch said := "`" + c.by + "`"; {
			case c.shared:
				want = append(want, said+" shared")
			case c.own:
				want = append(want, said+" own")
			case c.others:
				want = append(want, said+" others")
			case c.least > 0:
				want = append(want, said+" "+units.RoundPercent(c.least))
			default:
				want = append(want, said)
			}
		}
		row := "| " + strings.Join(want, ", ") + " |"
		line := ""
		for l := range strings.SplitSeq(table, "\n") {
			if cells := strings.SplitN(l, "|", 3); len(cells) == 3 && strings.Contains(cells[1], "`"+symptom+"`") {
				line = l
			}
		}
		if !strings.HasSuffix(strings.ReplaceAll(line, "\u00a0", " "), strings.ReplaceAll(row, "\u00a0", " ")) {
			t.Errorf("docs/reference/findings.md says %q of %s, want %q", line, symptom, row)
		}
	}
}

// TestAdviceNamesACause: a piece of advice may be only for the case that another finding is active (Advice.With). This
// other finding must be listed as a cause of the finding.
func TestAdviceNamesACause(t *testing.T) {
	for id, all := range variants {
		for _, list := range all {
			for _, a := range list {
				if a.With != "" && !slices.ContainsFunc(causes[id], func(c cause) bool { return c.by == a.With }) {
					t.Errorf("%s has advice for %s, which is none of its causes: %q", id, a.With, a.Text)
				}
			}
		}
	}
}

// TestCollectorBeforeSaturation: if the garbage collector runs 40 % of the time, threads queue for the GVL. The
// collector is the cause, so its finding comes before the finding about the queue.
func TestCollectorBeforeSaturation(t *testing.T) {
	s := newScene(t)
	work := s.stack("Work#a")
	s.play(15*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
		s.gc.During = i%10 < 4
		at := sampler.ThreadID(1 + i/10%5)
		var threads []sampler.Thread
		for id := sampler.ThreadID(1); id <= 5; id++ {
			th := gvltest.Queued(id)
			if id == at {
				th = gvltest.Holder(id)
			}
			threads = append(threads, s.at(th, work))
		}
		return at, threads
	})
	s.want("the collector", []string{"gc_pressure", "gvl_saturated"}, "40 % of the time")
	for _, f := range s.f.Current() {
		if f.ID == "gvl_saturated" && (f.Severity != SeverityCrit || !strings.HasPrefix(f.Next, "allocate less first")) {
			t.Errorf("%s: %s", f.Severity, f.Next)
		}
	}
}

// TestOrderByWhatIsExplained: of two problems, the one that explains more time comes first. While they explain about
// the same time, they do not change places.
func TestOrderByWhatIsExplained(t *testing.T) {
	s := newScene(t)
	work := s.stack("Work#a")
	var cpu, delay int64
	// Of every 20 ticks, the garbage collector runs in the first ones. collects is their number. lacks is the part of
	// each tick in which the thread has no CPU, in percent.
	play := func(d int64, collects int, lacks int64) {
		s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
			s.gc.During = i%20 < collects
			cpu, delay = cpu+sceneTick*(100-lacks)/100, delay+sceneTick*lacks/100
			th := s.at(gvltest.Holder(1), work)
			th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = s.now, cpu, delay
			return 1, []sampler.Thread{th}
		})
		s.gc.During = false
	}
	play(15*gvltest.Sec, 12, 12)
	s.want("mostly the collector", []string{"gc_pressure", "cpu_starved"}, "60 % of the time")
	for _, f := range s.f.Current() {
		if want := map[string]float64{"gc_pressure": .6 * .88, "cpu_starved": .12}[f.ID]; f.Explains < want-.02 || f.Explains > want+.02 {
			t.Errorf("%s explains %.2f, want %.2f", f.ID, f.Explains, want)
		}
	}
	play(15*gvltest.Sec, 3, 24)
	s.want("mostly no CPU", []string{"cpu_starved", "gc_pressure"}, "24 % of its holds")
	play(15*gvltest.Sec, 4, 24)
	s.want("about as much of both", []string{"cpu_starved", "gc_pressure"})
}
