package findings

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/findings/internal/tips"
)

// variants has the advice of the rules that have more than one piece of advice. Every other rule has one piece of
// advice, which does not contradict any other advice.
var variants = map[string][][]advice{
	ruleStarved:     {tips.Starved(), tips.Throttled(), tips.TakesLess(tips.Starved())},
	"memory_stall":  {tips.MemoryStall()},
	"gvl_saturated": {tips.Saturated(0), tips.Saturated(.1), tips.Saturated(.5)},
	"gvl_hog":       {tips.ThreadHog(), tips.RouteHog()},
	"gvl_stuck":     {tips.Stuck(false, false), tips.Stuck(true, true), tips.Stuck(true, false)},
	"io_busy":       {tips.IOBusy()},
	"thread_leak":   {tips.ThreadLeak()},
	"queue_grows":   {tips.QueueGrows(), tips.TakersEnded()},
	"all_busy":      {tips.AllBusy()},
}

// contradictions are pairs of pieces of advice that must not appear together. The test finds them by these words.
var contradictions = [][2]*regexp.Regexp{
	{regexp.MustCompile(`more processes|other process|another process|add worker processes`), regexp.MustCompile(`fewer (threads or )?(processes|workers)|run fewer workers`)},
	{regexp.MustCompile(`so more threads`), regexp.MustCompile(`fewer threads|run fewer workers`)},
}

// TestAdviceOfPairs: if two findings are shown together, in any order, their pieces of advice do not contradict each
// other. The first finding has no other finding above it, so its advice must not say "the advice above".
func TestAdviceOfPairs(t *testing.T) {
	finding := func(id string, list []advice) Finding { return Finding{ID: id, Next: list[0].Text, advice: list} }
	var all []Finding
	for _, r := range rules {
		for _, list := range variants[r.id] {
			all = append(all, finding(r.id, list))
		}
		if variants[r.id] == nil {
			all = append(all, finding(r.id, []advice{{Text: "what " + r.id + " says"}}))
		}
	}
	check := func(list []Finding) {
		t.Helper()
		list = slices.Clone(list)
		plan(list)
		said := ""
		for _, f := range list {
			said += fmt.Sprintf("\n  %s (until %d): %s", f.ID, f.UntilNS, f.Next)
		}
		for i, f := range list {
			fits := slices.ContainsFunc(f.advice, func(a advice) bool { return a.Text == f.Next })
			if !fits || i == 0 && strings.Contains(f.Next, "above") {
				t.Errorf("%s advises %q in%s", f.ID, f.Next, said)
			}
			for _, g := range list[i+1:] {
				for _, c := range contradictions {
					if c[0].MatchString(f.Next) && c[1].MatchString(g.Next) || c[1].MatchString(f.Next) && c[0].MatchString(g.Next) {
						t.Errorf("contradiction in%s", said)
					}
				}
			}
		}
	}
	for _, a := range all {
		check([]Finding{a})
		for _, b := range all {
			if a.ID == b.ID {
				continue
			}
			check([]Finding{a, b})
			past := b
			past.UntilNS = 1
			check([]Finding{a, past})
			for _, c := range all {
				if c.ID != a.ID && c.ID != b.ID && len(a.advice)*len(b.advice)*len(c.advice) > 1 && variants[c.ID] != nil {
					check([]Finding{a, b, c})
				}
			}
		}
	}
}

// TestAdviceHasAnEnd: if a rule has several pieces of advice, the last one contradicts no advice of any other finding.
// So each finding always gets a piece of advice.
func TestAdviceHasAnEnd(t *testing.T) {
	for id, all := range variants {
		for _, list := range all {
			if last := list[len(list)-1]; len(list) > 1 && (last.Does != 0 || last.With != "" || last.Below || last.Alone) {
				t.Errorf("%s: %q does not go with everything", id, last.Text)
			}
		}
	}
}

// TestAdviceIsInThePlan: if a rule suggests another number of processes or threads, it must offer several pieces of
// advice. The plan of all advice chooses one of them. If a rule wrote such advice directly, it could contradict other
// advice.
func TestAdviceIsInThePlan(t *testing.T) {
	files, err := filepath.Glob("rules_*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	bad := regexp.MustCompile(`h\.next = .*(more|fewer|add|another|other) (threads|processes|process|workers)`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if bad.MatchString(line) {
				t.Errorf("%s:%d: %s", name, i+1, strings.TrimSpace(line))
			}
		}
	}
}

// TestAdviceOfOne: which piece of its advice a finding gets depends on the other findings in the list.
func TestAdviceOfOne(t *testing.T) {
	f := func(id string, list []advice) Finding { return Finding{ID: id, advice: list} }
	saturated, starved, busy := f("gvl_saturated", tips.Saturated(.5)), f(ruleStarved, tips.Starved()), f("all_busy", tips.AllBusy())
	io, memory := f("io_busy", tips.IOBusy()), f("memory_stall", tips.MemoryStall())
	regex := f("regex_runaway", nil)
	past := starved
	past.UntilNS = 1
	for _, c := range []struct {
		list []Finding
		at   int
		want string
	}{
		{[]Finding{saturated}, 0, "I/O is 50 % of the work"},
		{[]Finding{starved, saturated}, 1, "give the process more CPU first"},
		{[]Finding{saturated, starved}, 0, "give the process more CPU first"},
		{[]Finding{regex, starved, saturated}, 2, "do less in Ruby for each request"},
		{[]Finding{saturated, past}, 0, "I/O is 50 % of the work"},
		{[]Finding{memory, saturated}, 1, "do less in Ruby for each request"},
		{[]Finding{io}, 0, "ask less often or for more at once; the GVL is free"},
		{[]Finding{saturated, io}, 1, "ask less often or for more at once"},
		{[]Finding{busy}, 0, "no other cause was found"},
		{[]Finding{saturated, busy}, 1, "follow the advice above first"},
		{[]Finding{starved, busy}, 1, "give the process more CPU first"},
	} {
		plan(c.list)
		if got := c.list[c.at].Next; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s of %d findings advises %q, want %q", c.list[c.at].ID, len(c.list), got, c.want)
		}
	}
}

// TestAdviceOfSeveral: the advice for several processes is one plan. Processes of the same program never get
// contradicting advice, in any order. Other programs are bound only by advice that is about the whole machine.
func TestAdviceOfSeveral(t *testing.T) {
	f := func(id string, list []advice) Finding { return Finding{ID: id, Next: list[0].Text, advice: list} }
	saturated, starved := f("gvl_saturated", tips.Saturated(.5)), f(ruleStarved, tips.Starved())
	io, hog, busy := f("io_busy", tips.IOBusy()), f("gvl_hog", tips.ThreadHog()), f("all_busy", tips.AllBusy())
	const (
		fewer, see = "fewer workers on this machine", "see what else uses the machine's CPUs"
		less, move = "do less in Ruby for each request", "move this work to another process"
		ask        = "ask less often or for more at once"
	)
	past := starved
	past.UntilNS, past.AgoNS = 1, 1
	for _, c := range []struct {
		name       string
		one, other Finding
		program    string // the program of the other process
		want       [2]string
	}{
		{"one lacks CPU", saturated, starved, "puma", [2]string{less, fewer}},
		{"threads", saturated, io, "puma", [2]string{"I/O is 50 % of the work", ask}},
		{"one is busy", starved, busy, "puma", [2]string{fewer, "see where they spend most of their time"}},
		{"it lacked CPU", hog, past, "puma", [2]string{move, see}},
		{"two programs", saturated, io, "sidekiq", [2]string{"I/O is 50 % of the work", ask + "; the GVL is free"}},
		{"one machine", hog, starved, "sidekiq", [2]string{"lower this thread's Thread#priority", fewer}},
		{"one machine before", hog, past, "sidekiq", [2]string{move, see}},
	} {
		for _, swap := range []bool{false, true} {
			one, other := Told{"puma", []Finding{c.one}}, Told{c.program, []Finding{c.other}}
			if all := []Told{one, other}; swap {
				slices.Reverse(all)
				PlanTogether(all...)
			} else {
				PlanTogether(all...)
			}
			got := [2]string{one.List[0].Next, other.List[0].Next}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) && (!swap || c.name != "threads") {
					t.Errorf("%s, swapped %v: advises %q, want %q", c.name, swap, got, c.want)
				}
			}
			for _, x := range contradictions {
				one, other := x[0].MatchString(got[0]), x[1].MatchString(got[0])
				if c.program == "puma" && (one && x[1].MatchString(got[1]) || other && x[0].MatchString(got[1])) {
					t.Errorf("%s, swapped %v: contradicts itself: %q", c.name, swap, got)
				}
			}
		}
	}
}
