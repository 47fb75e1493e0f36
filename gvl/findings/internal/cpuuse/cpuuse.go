// Package cpuuse describes, in the text of a finding, which processes use the CPUs that a target lacks.
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
	// maxAgeNS is the age up to which figures of CPU use still describe the present, in ns. If there are very many
	// processes, ddtop reads these figures less often. If the interval between two readings is longer than maxAgeNS,
	// this interval is the limit instead.
	maxAgeNS = 10e9
	// leastUser, least and leastUnseen are the smallest CPU times that texts mention, as a number of CPUs. leastUser is
	// for a single program. least is for all other processes together, and for a hypervisor. leastUnseen is for
	// processes that ddtop cannot see. It is larger because their time is only known as a difference: all CPU time
	// minus the time of visible processes.
	leastUser, least, leastUnseen = .05, .10, .25
	// ownShare is a share of the CPUs that a target may use. If the target uses less than this share of them, Own does
	// not mention it.
	ownShare = .5
	// fullShare is a share of the machine's CPUs. If at least this share is in use, ddtop treats all CPUs as in use.
	fullShare = .8
)

// Said says which processes use the CPUs, as parts of a sentence: "other processes take 1.5 of the machine's 2 CPUs".
// The result is empty if this is not known. limited is true if the target is delayed by its own CPU limit. In this case
// other processes are named only if nearly all CPUs of the machine are in use.
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

// Limit returns the CPU limit of the target's container as text: " (limit: 0.5 CPUs)". It is empty if the limit is not
// known.
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

// Own returns a text if a target itself uses much of its CPUs: "the process itself takes 0.9 of the 1 CPU that it may
// use". The parameter used is how many CPUs the target uses, and the parameter may is how many it is allowed to use.
// The text is empty if used is below the share ownShare of may, or if the figures are not known.
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

// Affinity returns a text if the target may use only some of the machine's CPUs: "it may use only 1 of the machine's 2
// CPUs". may is the number of CPUs that it may use. The text is empty if it may use all CPUs, or if this is not known.
func Affinity(u *sampler.CPUUse, may int) string {
	if u == nil || may <= 0 || int64(may) >= u.CPUs {
		return ""
	}
	return "it may use only " + strconv.Itoa(may) + " of the machine's " + units.Plural(int(u.CPUs), "CPU", "CPUs") +
		" (its CPU affinity, as taskset or a cpuset sets it)"
}
