package findings

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

func TestRulesSet(t *testing.T) {
	r := NewRules()
	value := func(name string) string {
		id, _, _ := strings.Cut(name, ".")
		for _, l := range r.Limits(id) {
			if l.Name == name {
				return l.Value
			}
		}
		return "none"
	}
	for _, tt := range []struct{ set, name, want string }{
		{"gvl_hog.blame=60%", "gvl_hog.blame", "60 %"},
		{"gvl_hog.blame=0.7", "gvl_hog.blame", "70 %"},
		{"gvl_hog.lead=2", "gvl_hog.lead", "2"},
		{"gvl_hog.wait=50ms", "gvl_hog.wait", "50 ms"},
		{"gvl_stuck.asleep=1.5", "gvl_stuck.asleep", "1.5 s"},
		{"stuck_thread.unchanged=2m", "stuck_thread.unchanged", "2 min"},
		{"all_busy.for=5s", "all_busy.for", "5 s"},
	} {
		if err := r.Set(tt.set); err != nil || value(tt.name) != tt.want {
			t.Errorf("%s: %v, %s", tt.set, err, value(tt.name))
		}
	}
	for _, tt := range []struct{ set, words string }{
		{"gvl_hog", "RULE=off"}, {"hog=off", "there are frozen, deadlock, lock_nobody_holds, gvl_stuck"}, {"gvl_hog=maybe", "on or off"},
		{"gvl_hog.size=1", "it has blame, lead, held, wait, lost, for"}, {"gvl_hog.blame=150%", "such as 60%"},
		{"gvl_hog.blame=NaN", "such as"}, {"gvl_hog.wait=-1s", "such as 80ms"}, {"gvl_hog.wait=9e99", "such as 80ms"},
		{"gvl_hog.lead=many", "such as 3"}, {"gvl_hog.for=0", "such as"},
	} {
		if err := r.Set(tt.set); err == nil || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: %v, want %q", tt.set, err, tt.words)
		}
	}
	if len(r.Limits("nothing")) != 0 {
		t.Error("limits of no rule")
	}
}

// TestLimitsAreWhole: every rule has a threshold. Every threshold has a rule, a default, and a field in limits that no
// other threshold uses.
func TestLimitsAreWhole(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[*float64]string{}
	var l limits
	for i := range limitSpecs {
		s := &limitSpecs[i]
		name := s.rule + "." + s.name
		if other, twice := seen[s.at(&l)]; twice {
			t.Errorf("%s and %s are one limit", name, other)
		}
		seen[s.at(&l)] = name
		if s.value <= 0 || !slices.Contains(RuleIDs(), s.rule) {
			t.Errorf("%s: %v", name, s.value)
		}
		if want := "`" + s.name + "` " + s.unit.Format(s.value); !documented(string(doc), s.rule, want) {
			t.Errorf("docs/reference/findings.md does not say %q of %s", want, s.rule)
		}
	}
	for _, id := range RuleIDs() {
		if len(NewRules().Limits(id)) < 2 {
			t.Errorf("%s has no limit of its own", id)
		}
		i := slices.IndexFunc(rules[:], func(r rule) bool { return r.id == id })
		if want := "`for` " + units.ProseDuration(rules[i].raise); rules[i].raise != 0 && !documented(string(doc), id, want) {
			t.Errorf("docs/reference/findings.md does not say %q of %s", want, id)
		}
	}
}

// TestDocsExplainTheRules: docs/findings.md has one row and one section for each rule.
func TestDocsExplainTheRules(t *testing.T) {
	text, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range RuleIDs() {
		row, section := "(#"+id+") (`"+id+"`) | ", "\n## "+id+"\n\n*"
		if strings.Count(string(text), row) != 1 || strings.Count(string(text), section) != 1 {
			t.Errorf("docs/findings.md does not explain %s once", id)
		}
	}
}

// TestDocsGroupTheRules: docs/reference/findings.md lists the rules of each rank. It also lists the rules that ignore a
// program's start. Both lists must equal the ones in the code.
func TestDocsGroupTheRules(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.Join(strings.Fields(string(text)), " ")
	for words, has := range map[string]func(*rule) bool{
		"Findings that keep threads from going on come first": func(r *rule) bool { return r.rank == rankStandstill },
		"causes come before symptoms":                         func(r *rule) bool { return r.rank == rankSymptom },
		"Rules on load":                                       func(r *rule) bool { return !r.boot },
	} {
		var ids []string
		for i := range rules {
			if has(&rules[i]) {
				ids = append(ids, "`"+rules[i].id+"`")
			}
		}
		if want := words + " (" + strings.Join(ids, ", ") + ")"; !strings.Contains(doc, want) {
			t.Errorf("docs/reference/findings.md does not say %q", want)
		}
	}
}

// documented reports whether the table's row of a rule contains the words.
func documented(doc, rule, words string) bool {
	for _, row := range strings.Split(doc, "\n") {
		if strings.HasPrefix(row, "| `"+rule+"`") {
			return strings.Contains(row, words)
		}
	}
	return false
}

func TestRulesAreObeyed(t *testing.T) {
	hog := func(sets ...string) []string {
		s := newScene(t)
		r := NewRules()
		for _, set := range sets {
			if err := r.Set(set); err != nil {
				t.Fatal(err)
			}
		}
		p := gvltest.ProcOf(sampler.EraSched)
		p.AttachedNS = gvltest.Base - 60_000*gvltest.MS
		s.watch(p, r)
		s.turns(8*gvltest.Sec, 6, 19)
		return s.ids()
	}
	if got := hog("gvl_saturated=off"); !slices.Equal(got, []string{"gvl_hog"}) {
		t.Errorf("one off: %v", got)
	}
	if got := hog("gvl_saturated=off", "gvl_saturated=on", "gvl_hog.wait=5s"); !slices.Equal(got, []string{"gvl_saturated"}) {
		t.Errorf("off and on, and a higher limit: %v", got)
	}
	if got := hog("gvl_saturated.for=20s", "gvl_stuck.hold=50ms"); !slices.Contains(got, "gvl_stuck") || slices.Contains(got, "gvl_saturated") {
		t.Errorf("a lower limit of a hold, a longer time to hold: %v", got)
	}
}

func TestRaised(t *testing.T) {
	s := newScene(t)
	s.turns(12*gvltest.Sec, 6, 19)
	got := s.f.Raised()
	if len(got) != 2 || got[0].ID != "gvl_hog" || got[1].ID != "gvl_saturated" || got[0].UntilNS != 0 {
		t.Fatalf("while it goes on: %+v", got)
	}
	began := got[0].SinceNS
	s.calm(30 * gvltest.Sec)
	s.want("gone", nil)
	got = s.f.Raised()
	if len(got) != 2 {
		t.Fatalf("afterwards: %+v", got)
	}
	for _, r := range got {
		if r.UntilNS <= r.SinceNS || r.Text == "" || r.ID == "gvl_hog" && r.SinceNS != began {
			t.Errorf("%+v", r)
		}
	}
	// A finding that another finding explains from its beginning to its end is not in the list.
	s = newScene(t)
	s.calm(3 * gvltest.Sec)
	s.turns(8*gvltest.Sec, 3, 79)
	for _, r := range s.f.Raised() {
		if r.ID == "gvl_hog" {
			t.Errorf("hidden, and still told: %+v", r)
		}
	}
}
