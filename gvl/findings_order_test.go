package gvl

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestOrder: what stands still, causes, symptoms; of one rank the severe ones first, then those that explain more.
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
		{"severity before what it explains", []raised{{"db_slow", SeverityWarn, .9}, {"pool_wait", SeverityCrit, .3}},
			[]string{"pool_wait", "db_slow"}},
		{"a severe symptom before a cause", []raised{{"gvl_hog", SeverityWarn, .3}, {"gvl_saturated", SeverityCrit, .8}},
			[]string{"gvl_saturated", "gvl_hog"}},
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
			finding := Finding{ID: r.id, Severity: r.severity}
			f.states[i] = ruleState{raised: true, shown: true, explains: r.explains, last: hit{severity: r.severity}, worst: finding}
		}
		var current, all []string
		for _, x := range f.Current() {
			current = append(current, x.ID)
		}
		for _, x := range f.raised() {
			all = append(all, x.ID)
		}
		if !slices.Equal(current, c.want) || !slices.Equal(all, c.want) {
			t.Errorf("%s: %v, of the run %v, want %v", c.name, current, all, c.want)
		}
	}
}

// TestOrderByWhatIsExplained: the same two troubles in other measures change places, and stay where they are while they are
// about as large.
func TestOrderByWhatIsExplained(t *testing.T) {
	s := newScene(t)
	work := s.stack("Work#a")
	var cpu, delay int64
	// collects is the part of 20 ticks in the collector, lacks the part of a tick without a CPU, in percent.
	play := func(d int64, collects int, lacks int64) {
		s.play(d, func(i int) (sampler.ThreadID, []sampler.Thread) {
			s.gc.During = i%20 < collects
			cpu, delay = cpu+sceneTick*(100-lacks)/100, delay+sceneTick*lacks/100
			th := s.at(holder(1), work)
			th.Kernel.CPUAtNS, th.Kernel.CPUNS, th.Kernel.RunDelayNS = s.now, cpu, delay
			return 1, []sampler.Thread{th}
		})
		s.gc.During = false
	}
	play(15*sec, 12, 12)
	s.want("mostly the collector", []string{"gc_pressure", "cpu_starved"}, "60 % of the time")
	for _, f := range s.f.Current() {
		if want := map[string]float64{"gc_pressure": .6 * .88, "cpu_starved": .12}[f.ID]; f.Explains < want-.02 || f.Explains > want+.02 {
			t.Errorf("%s explains %.2f, want %.2f", f.ID, f.Explains, want)
		}
	}
	play(15*sec, 3, 24)
	s.want("mostly no CPU", []string{"cpu_starved", "gc_pressure"}, "24 % of its holds")
	play(15*sec, 4, 24)
	s.want("about as much of both", []string{"cpu_starved", "gc_pressure"})
}
