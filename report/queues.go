package report

import "github.com/ddtop/ddtop/sampler"

// StatQueues counts the connections and requests that wait for the process. The process has not accepted these
// connections yet, and no thread has taken these requests. A figure that is not known is null.
type StatQueues struct {
	// Backlog is the number of connections and requests that wait in all queues together, at the last reading.
	// BacklogMax is the largest such number in the measured time.
	Backlog    *int64 `json:"backlog"`
	BacklogMax *int64 `json:"backlog_max"`
	// Why is the reason why the backlog is not known. It is null if the backlog is known.
	Why       *string        `json:"why"`
	Listeners []StatListener `json:"listeners"`
	Cut       bool           `json:"listeners_cut"`
	// Overflows and Drops count the connections that the kernel refused in the measured time. Overflows counts only the
	// connections that were refused because a queue was full. Drops counts all refused connections. Both include the
	// sockets of all processes in the network namespace.
	Overflows *int64     `json:"listen_overflows"`
	Drops     *int64     `json:"listen_drops"`
	Pools     []StatPool `json:"pools"`
}

// StatListener is a listening socket, with the queue of connections that the process has not accepted yet.
type StatListener struct {
	Address string `json:"address"`
	Queued  int64  `json:"queued"`
	Limit   *int64 `json:"limit"`
}

// StatPool is a pool of threads that serve requests or jobs.
type StatPool struct {
	Kind    string `json:"kind"`
	Threads *int64 `json:"threads"`
	Busy    *int64 `json:"busy"`
	Max     *int64 `json:"max"`
	Queued  *int64 `json:"queued"`
	Clients *int64 `json:"clients"`
}

// QueuesOf describes the queues of the process in the measured time. first and last are the first and the last reading
// of the queues. most is the largest backlog, or UnknownCount if it is not known. QueuesOf returns nil if the queues
// were never read.
func QueuesOf(first, last *sampler.Queues, most int64) *StatQueues {
	if last == nil {
		return nil
	}
	out := &StatQueues{Listeners: []StatListener{}, Pools: []StatPool{}, Cut: last.Accept.Cut, Why: TextOrNil(last.Accept.Why),
		BacklogMax: countOrNil(most), Backlog: BacklogOf(last)}
	if a, b := &first.Accept, &last.Accept; a.Drops >= 0 && b.Drops >= a.Drops && b.Overflows >= a.Overflows {
		out.Overflows, out.Drops = countOrNil(b.Overflows-a.Overflows), countOrNil(b.Drops-a.Drops)
	}
	for _, l := range last.Accept.Listeners {
		out.Listeners = append(out.Listeners, StatListener{Address: l.Address, Queued: l.Queued, Limit: countOrNil(l.Limit)})
	}
	for _, p := range last.Pools {
		out.Pools = append(out.Pools, StatPool{Kind: p.Kind.String(), Threads: countOrNil(p.Threads), Busy: countOrNil(p.Busy),
			Max: countOrNil(p.Max), Queued: countOrNil(p.Queued), Clients: countOrNil(p.Clients)})
	}
	return out
}

// BacklogOf returns the number of connections and requests that wait in all queues together. It returns nil if this
// number is not known.
func BacklogOf(q *sampler.Queues) *int64 {
	n, known := q.Backlog()
	if !known {
		return nil
	}
	return &n
}

func countOrNil(n int64) *int64 {
	if n == sampler.UnknownCount {
		return nil
	}
	return &n
}
