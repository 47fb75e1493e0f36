package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// siblings finds the processes whose requests queue because all threads are busy, while other processes of the same
// program have idle threads.
func siblings(list []ProcessStat) []report.Sibling {
	var out []report.Sibling
	for i := range list {
		pool := serverPool(&list[i].Stat)
		if pool == nil || *pool.Queued == 0 || *pool.Busy < *pool.Max {
			continue
		}
		idle := 0
		for j := range list {
			other := serverPool(&list[j].Stat)
			if j != i && list[j].Process.Title == list[i].Process.Title && other != nil && *other.Queued == 0 && *other.Busy < *other.Max {
				idle++
			}
		}
		if idle > 0 {
			out = append(out, report.Sibling{PID: list[i].Process.PID, Queued: *pool.Queued, Behind: mostRunning(&list[i].Stat), Idle: idle})
		}
	}
	return out
}

// serverPool returns the pool of threads that serve requests from the process's own queue. It returns nil if there is
// no such pool, if there are several, or if a number about the pool is unknown.
func serverPool(s *report.Stat) (found *report.StatPool) {
	if s.Queues == nil {
		return nil
	}
	for i := range s.Queues.Pools {
		p := &s.Queues.Pools[i]
		switch {
		case p.Kind != sampler.PoolPuma.String():
		case found != nil || p.Queued == nil || p.Busy == nil || p.Max == nil:
			return nil
		default:
			found = p
		}
	}
	return found
}

// mostRunning returns the route with the most requests in progress. If several routes have equally many, it returns the
// route with the oldest request. It returns nil if no request in progress has a known route.
func mostRunning(s *report.Stat) (most *string) {
	counts := make(map[string]int)
	for i := range s.Requests.Running { // Running has the oldest first
		if e := s.Requests.Running[i].Endpoint; e != nil {
			counts[*e]++
		}
	}
	for i := range s.Requests.Running {
		if e := s.Requests.Running[i].Endpoint; e != nil && (most == nil || counts[*e] > counts[*most]) {
			most = e
		}
	}
	return most
}

// writeSiblings writes a line for each process that siblings finds: "puma w3  pid 12 has 4 requests queued behind GET
// /slow while 11 other processes have idle threads".
func writeSiblings(b *strings.Builder, list []ProcessStat) {
	for _, s := range siblings(list) {
		name := fmt.Sprintf("pid %d", s.PID)
		for i := range list {
			if list[i].Process.PID == s.PID {
				name = ProcessName(list[i].Process)
			}
		}
		behind := ""
		if s.Behind != nil {
			behind = " behind " + flamegraph.Printable(*s.Behind)
		}
		fmt.Fprintf(b, "%s has %s queued%s while %s\n", name, units.Plural(int(s.Queued), "request", "requests"), behind,
			units.Plural(s.Idle, "other process has idle threads", "other processes have idle threads"))
	}
}
