package findings

import (
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// databases are the names of services that the rule db_slow judges (sampler.Peer.Service).
var databases = map[string]bool{
	"PostgreSQL": true, "MySQL": true, "PgBouncer": true, "SQL Server": true, "Oracle": true, "MongoDB": true,
	"Cassandra": true, "Neo4j": true, "InfluxDB": true, "ClickHouse": true, "CockroachDB": true, "CouchDB": true, "Redshift": true,
}

// answering are services that send data only if asked. So a thread that reads from them waits for an answer.
var answering = map[string]bool{
	"memcached": true, "LDAP": true, "SMTP": true, "Elasticsearch": true, "Solr": true, "Meilisearch": true, "Typesense": true,
}

// shortestCallNS is the shortest call whose length texts show, in ns. Shorter calls cannot be measured: ddtop reads the
// counters of waiting threads only at stack ticks, the samples that read all stacks.
const shortestCallNS = 10e6

// asked reports whether a peer group's service sends data only if asked. A read from it then waits for an answer.
func (w *moment) asked(n uint32) bool { return n != 0 && answering[w.ev.peers.Group(n).Peer.Service] }

// peerIs reports what a peer group is: a database, a Redis, or another service whose client this process is.
func (w *moment) peerIs(n uint32) (db, redis, other bool) {
	g := w.ev.peers.Group(n)
	switch {
	case databases[g.Peer.Service]:
		return true, false, false
	case strings.HasPrefix(g.Peer.Service, "Redis"):
		return false, true, false
	}
	return false, false, (g.Peer.Kind == sampler.PeerTCP || g.Peer.Kind == sampler.PeerUDP) && !g.Inbound
}

// waiting lists the threads for which ok is true. The thread with the longest present state comes first. longest is the
// length of this state in ns.
func (w *moment) waiting(ok func(*gvl.ThreadState, *watch) bool) (ids []sampler.ThreadID, longest int64) {
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil || !ok(ts, x) {
			continue
		}
		ids = append(ids, ts.Thread)
		if d := ts.DurationNS(); d > longest {
			longest = d
			ids[0], ids[len(ids)-1] = ids[len(ids)-1], ids[0]
		}
	}
	return ids, longest
}

// known returns the longest time, in ns, for which one of the threads is known to have waited.
func (w *moment) known(ids []sampler.ThreadID) (longest int64) {
	for _, id := range ids {
		longest = max(longest, w.state(id).KnownNS())
	}
	return longest
}

// slowest returns the peer group that took the most busy time, among the groups for which kind is true.
func (w *window) slowest(kind func(db, redis, other bool) bool) (group uint32, ns int64) {
	for n, v := range w.peers {
		if kind(w.peerIs(n)) && (v > ns || v == ns && n < group) {
			group, ns = n, v
		}
	}
	return group, ns
}

// onPeer sets the text and the other fields of a hit about one peer group.
func (w *window) onPeer(h *hit, group uint32, ns int64) {
	ids, _ := w.waiting(func(ts *gvl.ThreadState, x *watch) bool {
		return ts.State == gvl.IO && !x.idle && x.group == group
	})
	g := w.ev.peers.Group(group)
	h.peer, h.threads, h.explains = g.ID, ids, ns
	verb := tenseWaits + " for "
	if w.connecting(group, ns) {
		verb = tense("goes", "went") + " into attempts to connect to "
	}
	h.text = units.RoundPercent(w.ofBusy(ns)) + " of the busy time " + verb + gvl.PeerName(g.Peer) + listener(g.Peer) + w.callsText(group) + "; " + tenseNow + " " +
		units.Plural(len(ids), "thread", "threads")
	if len(ids) > 0 {
		h.text += w.longestText(", the longest ", ids)
		if ts := w.state(ids[0]); ts != nil {
			h.stack = ts.Stack
			h.text += w.in(ts.Stack)
		}
	}
	h.then(func(h *hit) { w.whoAsks(h, group, ns) })
}

// listener returns a text that names the process listening at a peer on the same machine, or "".
func listener(p sampler.Peer) string {
	if p.Process == "" {
		return ""
	}
	return ", where " + p.Process + " listens"
}

// callsText describes how many calls to a peer group have ended per second, and how long they took.
func (w *window) callsText(group uint32) string {
	ended := w.calls[group]
	if ended == nil || w.sampledNS == 0 {
		return ""
	}
	h := &ended.Longest
	n, longest := h.Count()
	text := ", " + number(float64(n)*1e9/float64(w.sampledNS)) + " calls per second: "
	if longest <= shortestCallNS {
		return text + "≤ " + units.ProseDuration(shortestCallNS) + " each"
	}
	return text + "half " + tense("take", "took") + " ≤ " + units.ProseDuration(h.Quantile(.5)) + ", 95 % ≤ " + units.ProseDuration(h.Quantile(.95)) +
		", the longest ≤ " + units.ProseDuration(longest)
}

// evalDB matches if much of the work waits for one database, and its calls are long.
func evalDB(w *window) hit {
	group, ns := w.slowest(func(db, _, _ bool) bool { return db })
	byStack := w.flag(stackkind.DB)
	if group == 0 || byStack > ns {
		// If a database has an unusual port, only the stack shows that it is a database: by its adapter's methods.
		if g, n := w.slowest(func(_, _, other bool) bool { return other }); g != 0 && byStack >= n/2 {
			group, ns = g, max(ns, min(n, byStack))
		}
	}
	return w.peerSlow(group, ns, w.limits.dbShare, w.limits.dbThreads, w.limits.dbCall,
		"Database", "see what the calling method asks for; look at the database's own list of running queries")
}

// evalRedis matches if calls to a Redis, which should answer at once, take long.
func evalRedis(w *window) hit {
	group, ns := w.slowest(func(_, redis, _ bool) bool { return redis })
	return w.peerSlow(group, ns, w.limits.redisShare, w.limits.redisThreads, w.limits.redisCall,
		"Redis", "SLOWLOG on the Redis, its CPU, the size of what is fetched")
}

// peerSlow returns the hit about slow calls to one peer group. share, threads and call are the rule's thresholds.
func (w *window) peerSlow(group uint32, ns int64, share, threads, call float64, title, next string) hit {
	h := hit{
		score:    least(w.ofBusy(ns)/share, w.share(ns)/threads, float64(w.callLength(group))/call),
		severity: SeverityWarn,
	}
	if group == 0 || h.score < 1 {
		return h
	}
	h.title = title + " slow"
	w.onPeer(&h, group, ns)
	h.next = next
	if w.connecting(group, ns) {
		h.title, h.next = title+" not reachable", unreachableAdvice
	}
	return h
}

// unreachableAdvice is the advice for a service that accepts no connection.
const unreachableAdvice = "see whether it runs, its accept queue, and what a firewall drops; wait longer before each retry"

// connecting reports whether threads that use a peer group spend most of the time in attempts to connect. The service
// then accepts no connections. This is worse than a slow service.
func (w *window) connecting(group uint32, ns int64) bool { return 2*w.connects[group] >= max(ns, 1) }

// evalHTTP matches if threads wait long for answers of another service.
func evalHTTP(w *window) hit {
	group, ns := w.slowest(func(_, _, other bool) bool { return other })
	if group == 0 {
		return hit{}
	}
	long := 0
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil || ts.State != gvl.IO || x.idle || x.group != group {
			continue
		}
		if !w.asked(group) && w.listens(x) {
			// ns is the I/O time of all threads at this peer. It includes threads that only listen to the peer and wait
			// for no answer. Subtract the time of each such thread.
			if t := w.threads[ts.Thread]; t != nil {
				ns -= t.ns[gvl.IO]
			}
			continue
		}
		if ts.KnownNS() >= int64(w.limits.httpWait) {
			long++
		}
	}
	length := float64(w.callLength(group)) / w.limits.httpCall
	much := least(w.ofBusy(ns)/w.limits.httpShare, w.share(ns)/w.limits.httpThreads)
	if length < 1 && much >= 1 {
		_, _, calls := asker(w, group, ns)
		length = max(length, calls/callsMany) // many short calls delay a request as much as a few long ones
	}
	h := hit{
		score:    max(float64(long)/w.limits.httpWaiting, least(much, length)),
		severity: SeverityWarn,
	}
	if w.flag(stackkind.DB) > ns/2 {
		return hit{} // evalDB judges these waits
	}
	if h.score < 1 {
		return h // a finding that was raised before stays until its score is below ClearShare
	}
	h.title = "Another service " + tenseIs + " slow"
	w.onPeer(&h, group, ns)
	h.next = "set timeouts, a circuit breaker, or move the call to a job"
	if w.connecting(group, ns) {
		h.title, h.next = "Another service not reachable", unreachableAdvice
	}
	return h
}

// consumer reports whether a thread's normal work is to wait. Examples are the reader of a stream, and the supervisor
// of a child process. Such a thread was never seen doing anything else, and is no worker of a server's pool.
func consumer(x *watch) bool { return !x.moved && x.flags&(stackkind.Server|stackkind.Serving) == 0 }

// evalDNS matches if threads wait for names to be resolved.
func evalDNS(w *window) hit {
	ids, _ := w.waiting(func(ts *gvl.ThreadState, _ *watch) bool {
		return ts.State == gvl.IO && ts.Detail.Op == gvl.OpResolve
	})
	sum := w.ops[opResolves]
	h := hit{score: max(float64(w.known(ids))/w.limits.dnsWait, float64(sum)/w.limits.dnsSum), severity: SeverityWarn, threads: ids}
	if h.score < 1 {
		return h
	}
	h.explains = sum
	h.title = "Name resolution slow"
	h.text = "threads " + tense("resolve", "resolved") + " names again and again"
	if len(ids) > 0 {
		h.text = units.Plural(len(ids), "thread "+tense("resolves", "resolved"), "threads "+tense("resolve", "resolved")) + " a name"
		h.text += w.longestText(", the longest for ", ids)
		if ts := w.state(ids[0]); ts != nil {
			h.stack, h.peer = ts.Stack, ts.Detail.Peer
			h.text += w.in(ts.Stack)
		}
	}
	h.text += "; " + units.ProseDuration(sum) + " in " + units.ProseDuration(w.sampledNS)
	h.next = "check the resolver, ndots in /etc/resolv.conf, and keep connections alive"
	return h
}

func (w *moment) isMain(id sampler.ThreadID) bool {
	if w.dict == nil {
		return false
	}
	info, ok := w.dict.Thread(id)
	return ok && info.Main
}

// evalLogBlocked matches if a thread waits in a write to the log, to stdout or to stderr, and the write does not end.
func evalLogBlocked(w *window) hit {
	ids, longest := w.waiting(func(ts *gvl.ThreadState, x *watch) bool {
		if ts.State != gvl.IO || ts.Detail.Op != gvl.OpWrite {
			return false
		}
		return x.flags&stackkind.Log != 0 || (ts.Detail.FD == 1 || ts.Detail.FD == 2) && !w.terminal(ts.Detail.Peer)
	})
	h := hit{score: float64(w.known(ids)) / w.limits.logWrite, severity: SeverityCrit, threads: ids}
	if len(ids) == 0 || h.score < 1 {
		return h
	}
	ts := w.state(ids[0])
	behind := 0
	for i := range w.states {
		if w.states[i].State == gvl.Lock && w.states[i].Detail.Holder == ids[0] {
			behind++
		}
	}
	h.stack, h.peer, h.explains = ts.Stack, ts.Detail.Peer, min(longest, w.sampledNS)*int64(1+behind)
	h.title = "Log output stuck"
	h.text = w.name(ids[0]) + " " + tenseIs + " in write() to " + w.target(ts) + w.longestText(" for ", ids[:1]) + w.in(ts.Stack)
	if behind > 0 {
		h.text += ", " + units.Plural(behind, "thread "+tenseWaits, "threads "+tenseWait) + " behind it"
	}
	h.next = "look at what reads the log (collector, pipe), and at the disk"
	return h
}

func (w *moment) terminal(id sampler.PeerID) bool {
	return id != 0 && w.dict != nil && w.dict.Peer(id).Kind == sampler.PeerTTY
}

// target returns the name of the file or stream that a thread writes to.
func (w *moment) target(ts *gvl.ThreadState) string {
	switch ts.Detail.FD {
	case 1:
		return "stdout"
	case 2:
		return "stderr"
	}
	if ts.Detail.Peer != 0 && w.dict != nil {
		return gvl.PeerName(w.dict.Peer(ts.Detail.Peer))
	}
	return "the log"
}
