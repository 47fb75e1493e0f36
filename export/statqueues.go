package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// statQueues writes which connections and requests wait before a thread serves them: "backlog 6: 4 connections not
// accepted at 127.0.0.1:9292 (limit 1024), 2 requests in puma; puma 3 of 3 busy".
func statQueues(b *strings.Builder, q *report.StatQueues) {
	if q == nil || q.Backlog == nil && q.Why == nil && len(q.Pools) == 0 {
		return
	}
	fmt.Fprint(b, "backlog ")
	if q.Backlog == nil {
		fmt.Fprint(b, "–")
		if q.Why != nil {
			fmt.Fprintf(b, " (%s)", flamegraph.Printable(*q.Why))
		}
	} else {
		fmt.Fprint(b, *q.Backlog)
		if q.BacklogMax != nil && *q.BacklogMax > *q.Backlog {
			fmt.Fprintf(b, " (at most %d)", *q.BacklogMax)
		}
	}
	var parts []string
	for _, l := range q.Listeners {
		if l.Queued == 0 {
			continue
		}
		part := fmt.Sprintf("%s not accepted at %s", units.Plural(int(l.Queued), "connection", "connections"), flamegraph.Printable(l.Address))
		if l.Limit != nil {
			part += fmt.Sprintf(" (limit %d)", *l.Limit)
		}
		parts = append(parts, part)
	}
	for _, p := range q.Pools {
		if p.Queued != nil && *p.Queued > 0 {
			one, many := "job", "jobs"
			if p.Kind == sampler.PoolPuma.String() {
				one, many = "request", "requests"
			}
			parts = append(parts, fmt.Sprintf("%s in %s", units.Plural(int(*p.Queued), one, many), p.Kind))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, ": %s", strings.Join(parts, ", "))
	}
	for _, p := range q.Pools {
		switch {
		case p.Busy == nil || p.Threads == nil:
		case p.Max != nil && *p.Max > *p.Threads:
			fmt.Fprintf(b, "; %s %d of %d busy, up to %d", p.Kind, *p.Busy, *p.Threads, *p.Max)
		default:
			fmt.Fprintf(b, "; %s %d of %d busy", p.Kind, *p.Busy, *p.Threads)
		}
		if p.Clients != nil && *p.Clients > 0 {
			fmt.Fprintf(b, ", %s in its reactor", units.Plural(int(*p.Clients), "client", "clients"))
		}
	}
	if q.Overflows != nil && *q.Overflows > 0 {
		fmt.Fprintf(b, "; full queues of the network namespace refused %s", units.Plural(int(*q.Overflows), "connection", "connections"))
	}
	fmt.Fprintln(b)
}
