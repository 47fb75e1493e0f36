// Package cpuuse says which processes take the CPUs that a target lacks.
package cpuuse

import (
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/tenses"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxAgeNS is the largest age, in ns, at which figures of CPU use still describe the present. If there are very
	// many processes, these figures are read less often. Then the interval between two readings applies, if it is
	// longer.
	maxAgeNS = 10e9
	// These are the least CPU times that are mentioned, as a number of CPUs. leastUser applies to a single program.
	// least applies to all other processes together, and to a hypervisor. leastUnseen applies to processes that ddtop
	// cannot see. It is larger because their time is only the rest that no visible process has used.
	leastUser, least, leastUnseen = .05, .10, .25
	// ownShare is the least share of its allowed CPUs that a target must use for Own to report it.
	ownShare = .5
	// fullShare is the share of the machine's CPUs that must be in use so that all of them count as in use.
	fullShare = .8
)

// Said returns who uses the CPUs, as parts of a sentence: "other processes take 1.5 of the machine's 2 CPUs". It is
// empty if this is not known. limited is true if the target has a CPU limit of its own that delays it. Then other
// processes matter only if nearly all CPUs of the machine are in use.
func Said(u *sampler.CPUUse, nowNS int64, limited bool) (out []string) {
	if u == nil || u.AtNS <= u.FromNS || nowNS-u.AtNS > max(maxAgeNS, u.AtNS-u.FromNS) {
		return nil
	}
	cpus := func(ns int64) float64 { return gvl.Ratio(ns, u.AtNS-u.FromNS) }
	if limited && cpus(u.AllNS) < fullShare*float64(u.CPUs) {
		return nil
	}
	of := " of the machine's " + units.Plural(int(u.CPUs), "CPU", "CPUs")
	if cpus(u.OthersNS) >= least {
		text := "other processes " + tenses.Take + " " + units.Number(cpus(u.OthersNS), 1) + of
		var users []string
		for _, x := range u.Users {
			if part := cpus(x.NS); part >= leastUser {
				pid := "PID " + strconv.Itoa(int(x.PID))
				if x.Processes > 1 {
					pid = strconv.FormatInt(x.Processes, 10) + " processes, most of it " + pid
				}
				users = append(users, x.Name+" ("+pid+") "+units.Number(part, 2))
			}
		}
		if len(users) > 0 {
			text += ": " + strings.Join(users, ", ")
		}
		out = append(out, text)
	}
	if cpus(u.UnseenNS) >= leastUnseen {
		who := "processes that ended within seconds, or that ddtop may not see, "
		if u.Contained {
			who = "processes outside ddtop's container "
		}
		out = append(out, who+tenses.Take+" "+units.Number(cpus(u.UnseenNS), 1)+of)
	}
	if cpus(u.StolenNS) >= least {
		out = append(out, "the hypervisor "+tenses.Of("gives", "gave")+" "+units.Number(cpus(u.StolenNS), 1)+of+
			" to other machines")
	}
	return out
}

// Limit returns the CPU limit of the target's container, as " (limit: 0.5 CPUs)". It is empty if that is not known.
func Limit(u *sampler.CPUUse) string {
	if u == nil || u.LimitMilli == 0 {
		return ""
	}
	n := units.Number(float64(u.LimitMilli)/1000, 2)
	if n == "1" {
		return " (limit: 1 CPU)"
	}
	return " (limit: " + n + " CPUs)"
}

// Own says that a target itself takes much of the CPUs: "the process itself takes 0.9 of the 1 CPU that it may use".
// used is how many CPUs it uses, may how many it is allowed to use. The text is empty if the target uses less than
// ownShare of them, or if that is not known.
func Own(u *sampler.CPUUse, used float64, may int) string {
	if u == nil {
		return ""
	}
	cpus := u.CPUs
	if may > 0 {
		cpus = min(cpus, int64(may))
	}
	if cpus <= 0 || used < ownShare*float64(cpus) {
		return ""
	}
	return "the process itself " + tenses.Of("takes", "took") + " " + units.Number(used, 1) + " of the " +
		units.Plural(int(cpus), "CPU", "CPUs") + " that it may use"
}

// Affinity says that the target is allowed to use only some of the machine's CPUs: "it may use only 1 of the machine's
// 2 CPUs". may is their number. The text is empty if all CPUs are allowed, or if that is not known.
func Affinity(u *sampler.CPUUse, may int) string {
	if u == nil || may <= 0 || int64(may) >= u.CPUs {
		return ""
	}
	return "it may use only " + strconv.Itoa(may) + " of the machine's " + units.Plural(int(u.CPUs), "CPU", "CPUs") +
		" (its CPU affinity, as taskset or a cpuset sets it)"
}
