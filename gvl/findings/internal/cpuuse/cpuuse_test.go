package cpuuse

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl/findings/internal/tenses"
	"github.com/ddtop/ddtop/sampler"
)

// TestSaid checks the text about the processes that use the CPUs, and in which cases there is no text.
func TestSaid(t *testing.T) {
	const sec = int64(1e9)
	use := func(change func(u *sampler.CPUUse)) *sampler.CPUUse {
		u := &sampler.CPUUse{FromNS: 100 * sec, AtNS: 104 * sec, CPUs: 2, AllNS: 8 * sec, UnseenNS: sec / 2, OthersNS: 7 * sec, Users: []sampler.CPUUser{
			{PID: 42, Name: "stress", NS: 4 * sec}, {PID: 43, Processes: 3, Name: "cc1", NS: 2 * sec}, {PID: 44, Name: "sh", NS: sec / 10},
		}}
		if change != nil {
			change(u)
		}
		return u
	}
	const others = "other processes take 1.8 of the machine's 2 CPUs: stress (PID 42) 1, " +
		"cc1 (3 processes, most of it PID 43) 0.5"
	alone := func(u *sampler.CPUUse) { u.OthersNS, u.Users = sec/10, nil }
	for _, c := range []struct {
		name    string
		use     *sampler.CPUUse
		limited bool
		want    string
	}{
		{"others", use(nil), false, others},
		{"not read", nil, false, ""},
		{"an old reading", use(func(u *sampler.CPUUse) { u.FromNS, u.AtNS = 90*sec, 94*sec }), false, ""},
		{"an old reading of very many processes", use(func(u *sampler.CPUUse) { u.FromNS, u.AtNS, u.OthersNS = 30*sec, 80*sec, 100*sec }), false,
			"other processes take 2 of the machine's 2 CPUs: stress (PID 42) 0.08"},
		{"a limit, on a full machine", use(nil), true, others},
		{"a limit, on a machine with a CPU to spare", use(func(u *sampler.CPUUse) { u.AllNS = 5 * sec }), true, ""},
		{"nobody else", use(alone), false, ""},
		{"processes that ended", use(func(u *sampler.CPUUse) { alone(u); u.UnseenNS = 6 * sec }), false,
			"processes that ended within seconds, or that ddtop may not see, take 1.5 of the machine's 2 CPUs"},
		{"a container", use(func(u *sampler.CPUUse) { alone(u); u.UnseenNS, u.Contained = 6*sec, true }), false,
			"processes outside ddtop's container take 1.5 of the machine's 2 CPUs"},
		{"a hypervisor", use(func(u *sampler.CPUUse) { alone(u); u.StolenNS = 2 * sec }), false,
			"the hypervisor gives 0.5 of the machine's 2 CPUs to other machines"},
	} {
		if got := tenses.Spoken(strings.Join(Said(c.use, 106*sec, c.limited), "; "), false); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := tenses.Spoken(Said(use(nil), 106*sec, false)[0], true); !strings.HasPrefix(got, "other processes took 1.8 of") {
		t.Errorf("in the past: %q", got)
	}
}

// TestLimit checks the text about a limit in CPUs.
func TestLimit(t *testing.T) {
	for milli, want := range map[int64]string{0: "", 500: " (limit: 0.5 CPUs)", 1000: " (limit: 1 CPU)", 2250: " (limit: 2.25 CPUs)"} {
		if got := Limit(&sampler.CPUUse{LimitMilli: milli}); got != want {
			t.Errorf("%d: %q", milli, got)
		}
	}
	if got := Limit(nil); got != "" {
		t.Errorf("not read: %q", got)
	}
}

// TestAffinity: the text says whether the target may use only some of the CPUs.
func TestAffinity(t *testing.T) {
	const one = "it may use only 1 of the machine's 2 CPUs (its CPU affinity, as taskset or a cpuset sets it)"
	for may, want := range map[int]string{0: "", 2: "", 1: one} {
		if got := Affinity(&sampler.CPUUse{CPUs: 2}, may); got != want {
			t.Errorf("%d: %q", may, got)
		}
	}
	if got := Affinity(nil, 1); got != "" {
		t.Errorf("not read: %q", got)
	}
}

// TestOwn: if the target itself takes most of the CPUs that it may use, the text says so.
func TestOwn(t *testing.T) {
	for _, c := range []struct {
		used float64
		may  int
		want string
	}{
		{.9, 0, ""}, {1.2, 0, "the process itself takes 1.2 of the 2 CPUs that it may use"}, {.4, 1, ""},
		{.7, 1, "the process itself takes 0.7 of the 1 CPU that it may use"},
	} {
		if got := tenses.Spoken(Own(&sampler.CPUUse{CPUs: 2}, c.used, c.may), false); got != c.want {
			t.Errorf("%v of %d: %q, want %q", c.used, c.may, got, c.want)
		}
	}
	if got := Own(nil, 2, 0); got != "" {
		t.Errorf("not read: %q", got)
	}
}
