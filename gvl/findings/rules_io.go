package findings

import (
	"strings"
	"unicode"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/gvl/findings/internal/tips"
	"github.com/ddtop/ddtop/gvl/findings/internal/usual"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// PoolName returns the name of a thread's pool. It removes what differs between the pool's threads: runs of digits and
// the punctuation before them. So "http-12" becomes "http", "puma srv tp 003" becomes "puma srv tp", and "worker[2]"
// "worker". Digits become "#" if they are in the middle ("worker-3 of 8") or are the whole name.
func PoolName(thread string) string {
	var b strings.Builder
	inDigits := false
	for _, r := range thread {
		if unicode.IsDigit(r) {
			if !inDigits {
				b.WriteByte('#')
			}
			inDigits = true
			continue
		}
		inDigits = false
		b.WriteRune(r)
	}
	p := b.String()
	trimmed := strings.TrimRight(p, "#-_:. /()[]")
	if trimmed == "" {
		return p
	}
	return trimmed
}

// workers are the threads of one pool. io and lock are the times for which they waited for I/O and for locks, in ns.
type workers struct {
	name     string
	ids      []sampler.ThreadID
	io, lock int64
}

// pools groups the threads by pool. It leaves out threads whose work is to wait for messages (see listens).
func (w *window) pools() map[string]*workers {
	pools := make(map[string]*workers)
	for i := range w.states {
		id := w.states[i].Thread
		x, t := w.watch(id), w.threads[id]
		if x == nil || t == nil || w.listens(x) {
			continue
		}
		name := PoolName(w.name(id))
		p := pools[name]
		if p == nil {
			p = &workers{name: name}
			pools[name] = p
		}
		p.ids = append(p.ids, id)
		p.io += t.ns[gvl.IO]
		p.lock += t.ns[gvl.Lock]
	}
	return pools
}

// listens reports whether a thread waits for messages rather than for an answer. One of three facts is enough. First,
// the traffic on its connection is typical of messages. Second, the thread was never seen doing anything else. Third,
// it has waited at its usual stack for longer than a call takes. A thread of a server's pool, or in a request, does not
// listen.
func (w *moment) listens(x *watch) bool {
	if x.flags&(stackkind.Server|stackkind.Serving) != 0 {
		return false
	}
	return x.listens || consumer(x) || x.usual.Matches(x.stack) && float64(x.usual.LongestNS) >= usual.Wait*w.limits.httpWait
}

// evalIOBusy matches if most threads of a pool wait. This alone is no fault. So if a rule that reports a fault explains
// these waits, its finding hides this one.
func evalIOBusy(w *window) hit {
	var most *workers
	var h hit
	for _, p := range w.pools() {
		blocked := p.io + p.lock
		score := least(w.share(blocked)/float64(len(p.ids))/w.limits.ioShare, w.share(blocked)/w.limits.ioThreads)
		if score > h.score || score == h.score && most != nil && p.name < most.name {
			most, h.score = p, score
		}
	}
	if h.score < 1 {
		return h
	}
	h.threads, h.explains = most.ids, most.io+most.lock
	share := units.RoundPercent(w.share(most.io+most.lock) / float64(len(most.ids)))
	h.text = units.Plural(len(most.ids), "thread", "threads") + " (" + most.name + ") " + tenseSpend + " " + share + " of their time "
	if most.lock > most.io {
		h.title = "Threads " + tenseWait + " for locks"
		h.text += "waiting for locks"
		h.next = "see which lock, and what is done while it is held (view 6)"
	} else {
		h.title = "Threads " + tenseWait + " for I/O"
		h.text += "in I/O"
		h.advise(tips.IOBusy()...)
	}
	group, _ := w.slowest(func(_, _, _ bool) bool { return true })
	if most.lock > most.io {
		group = 0
	}
	if group != 0 {
		h.peer = w.ev.peers.Group(group).ID
		h.text += ", most at " + gvl.PeerName(w.ev.peers.Group(group).Peer) + listener(w.ev.peers.Group(group).Peer) + w.callsText(group)
	}
	for _, id := range most.ids {
		if x := w.watch(id); x != nil && x.waitsSo(most.lock > most.io, group) {
			h.stack = x.stack
			h.text += "; " + tenseNow + " in " + w.place(x.stack)
			break
		}
	}
	return h
}

// waitsSo reports whether a thread waits in the way that the finding io_busy describes. If lock is set, the thread must
// wait for a lock. Otherwise it must wait for I/O with the peer group, or for any I/O if group is 0. An idle thread
// does not count as waiting for I/O.
func (x *watch) waitsSo(lock bool, group uint32) bool {
	if lock {
		return x.stack != 0 && x.state == gvl.Lock
	}
	return x.stack != 0 && x.state == gvl.IO && !x.idle && (group == 0 || x.group == group)
}
