package push

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/push/spool"
)

// These limits distinguish a payload that a destination refuses from a destination that accepts nothing. The oldest
// payload is tried first. After it has failed a few times, others are tried right after it. If one of them is
// accepted, the destination works. Then the oldest is set aside, and with it the payloads of its service. If none is
// accepted, the destination cannot be reached. Then the next round begins with the oldest again, so that all arrive in
// order when the destination is back.
const (
	// headTries is the number of failed tries of the oldest payload before others are tried, too. With the pauses
	// between them, this takes three seconds.
	headTries = 3
	// maxProbes bounds the other payloads that are tried in one round. It limits the cost while a destination cannot
	// be reached.
	maxProbes = 3
	// firstAside and longestAside bound the time for which a payload, or a service, is set aside. It doubles with
	// each failure.
	firstAside   = 10 * time.Second
	longestAside = 5 * time.Minute
	// maxBlamed bounds the failed tries of a payload while others are accepted. That is about 40 minutes.
	maxBlamed = 10
	// maxAge bounds the age of a payload that has failed, because destinations refuse older ones.
	maxAge = 7 * 24 * time.Hour
	// maxApart bounds the services that are set aside as a whole.
	maxApart = 1024
)

// round is a series of tries that begins with the oldest payload.
type round struct {
	// head is the oldest payload's name. It is empty if no round is going on, and the oldest is next.
	head   string
	mark   spool.Mark
	probes int
	err    error // of the last try
	// tried are the names that were tried since a payload was last accepted. groups are their groups. anyGroup is true
	// if there is no payload of another group.
	tried, groups map[string]bool
	anyGroup      bool
}

// apart is a service whose payloads fail while others are accepted.
type apart struct {
	failed int
	until  time.Time
	gaveUp bool // a log line has reported that one was given up
}

// try is the result of a try.
type try struct {
	// tried is false if there was nothing to try. Then wait is the time until there is, or zero.
	tried bool
	wait  time.Duration
	// err is set if the payload must be tried again. If goOn is true, the next one is tried at once.
	err  error
	goOn bool
}

// group returns the common property of payloads that fail together: their service.
func (p *Payload) group() string { return cmp.Or(p.Service, p.Title, "unknown") }

// tryNext tries the payload whose turn it is.
func (l *lane) tryNext(now time.Time) try {
	for {
		var wake time.Time
		name, payload, mark, broken, err := l.read(func(name string, m spool.Mark) bool {
			return l.mayTry(name, m, now, &wake)
		})
		r := &l.round
		switch {
		case err != nil:
			return try{err: err}
		case name == "" && r.head != "" && !r.anyGroup:
			r.anyGroup = true
		case name == "" && r.head != "":
			// There is nothing that was not tried.
			err := r.err
			l.round = round{}
			return try{err: err}
		case name == "":
			if wake.IsZero() {
				return try{}
			}
			return try{wait: max(wake.Sub(now), time.Millisecond)}
		case mark.Failed > 0 && !payload.To.IsZero() && now.Sub(payload.To) > maxAge:
			l.giveUp(name, payload, mark, fmt.Errorf("it is older than %v", maxAge))
		default:
			err := l.deliver(name, payload, broken)
			if err == nil {
				l.taken(name, mark.Group, now, broken)
				return try{tried: true}
			}
			if l.ctx.Err() != nil {
				return try{tried: true, err: err}
			}
			return l.notTaken(name, payload, mark, err, now)
		}
	}
}

// tryLast tries, at the end, the payloads that were not tried since the end began.
func (l *lane) tryLast(tried map[string]bool) try {
	name, payload, _, broken, err := l.read(func(name string, _ spool.Mark) bool { return !tried[name] })
	if err != nil || name == "" {
		return try{err: err}
	}
	if err = l.deliver(name, payload, broken); err != nil {
		tried[name] = true
		if l.ctx.Err() == nil {
			l.failed(err)
		}
	}
	return try{tried: true, err: err}
}

// read reads the oldest payload that may be tried, and notes its group. broken says why the data is not a payload.
func (l *lane) read(may func(string, spool.Mark) bool) (name string, p *Payload, mark spool.Mark, broken, err error) {
	for {
		var data []byte
		name, data, mark, err = l.Queue.Next(may)
		if err != nil {
			l.failed(fmt.Errorf("reading the spool: %w", err))
			return "", nil, mark, nil, err
		}
		if name == "" {
			return "", nil, mark, nil, nil
		}
		if p, err = unmarshal(data); err != nil {
			return name, new(Payload), mark, &RefusedError{err}, nil
		}
		if mark.Group != "" {
			return name, p, mark, nil, nil
		}
		mark.Group = p.group()
		now := may(name, mark)
		mark.Held = !now && l.apart[mark.Group] != nil
		l.note(name, mark)
		if now {
			return name, p, mark, nil, nil
		}
	}
}

// note stores a mark of a payload. It reports once that the disk does not keep it.
func (l *lane) note(name string, m spool.Mark) {
	if err := l.Queue.Note(name, m); err != nil && !l.unkept {
		l.unkept = true
		l.log.Warn("the spool does not keep how often "+l.one+" was tried: after a restart it is tried as if it were new", "err", err)
	}
}

// mayTry reports whether a payload may be tried now. If the payload is set aside, mayTry lowers wake to the end of
// that time.
func (l *lane) mayTry(name string, m spool.Mark, now time.Time, wake *time.Time) bool {
	until := m.Until
	if a := l.apart[m.Group]; a != nil && a.until.After(until) {
		until = a.until
	}
	if until.After(now) {
		if wake.IsZero() || until.Before(*wake) {
			*wake = until
		}
		return false
	}
	r := &l.round
	if r.head == "" {
		return true
	}
	return !r.tried[name] && (r.anyGroup || m.Group == "" || !r.groups[m.Group])
}

// taken ends a round, because the destination works. If the payload was not the round's head, the head is set aside.
func (l *lane) taken(name, group string, now time.Time, broken error) {
	if broken != nil {
		return // it says nothing of the destination
	}
	r := l.round
	l.round = round{}
	if a := l.apart[group]; a != nil {
		delete(l.apart, group)
		l.log.Info(l.many+" of a service are taken again", "service", group)
	}
	if r.head == "" || r.head == name {
		l.noteAside("")
		return
	}
	if r.mark.Group != group && len(l.apart) < maxApart {
		l.apart[r.mark.Group] = &apart{failed: 1, until: now.Add(l.asideFor(1))}
	}
	r.mark.Until = now.Add(l.asideFor(r.mark.Failed))
	l.note(r.head, r.mark)
	l.noteAside(r.err.Error())
	l.log.Warn(l.one+" is not taken while others are: it is set aside, and tried again later",
		"service", r.mark.Group, "err", r.err)
}

// notTaken notes that a payload was not accepted, and decides how to continue.
func (l *lane) notTaken(name string, p *Payload, m spool.Mark, err error, now time.Time) try {
	sent := l.figures().Sent
	if m.Failed++; m.Failed > 1 && sent > m.SentBefore {
		m.Blamed++
	}
	m.SentBefore, m.Held = sent, false
	if m.Blamed >= maxBlamed {
		l.count(func(s *Stats) { s.Failures++ })
		l.giveUp(name, p, m, err)
		return try{tried: true}
	}
	var later *LaterError
	asked := errors.As(err, &later)
	a := l.apart[m.Group]
	if a != nil {
		a.failed++
		a.until = now.Add(l.asideFor(a.failed))
	}
	if a != nil || !m.Until.IsZero() {
		wait := l.asideFor(m.Failed)
		if asked {
			wait = max(wait, min(later.After, longestAsked))
		}
		m.Until = now.Add(wait)
		l.note(name, m)
		l.count(func(s *Stats) { s.Failures++ })
		l.noteAside(err.Error())
		return try{tried: true, err: err, goOn: true}
	}
	l.note(name, m)
	l.failed(err)
	return l.round.next(name, m, err, asked)
}

// next decides how a round continues after a failure. asked is true if the destination has requested a pause. In this
// case, after the pause only one other payload is tried.
func (r *round) next(name string, m spool.Mark, err error, asked bool) try {
	r.err = err
	if r.head == "" {
		if m.Failed < headTries && !(asked && m.Failed > 1) {
			return try{tried: true, err: err}
		}
		r.head, r.mark = name, m
		if r.tried == nil {
			r.tried, r.groups = make(map[string]bool), make(map[string]bool)
		}
	} else {
		r.probes++
	}
	r.tried[name], r.groups[m.Group] = true, true
	if r.probes >= maxProbes || asked && r.probes > 0 {
		// The next round begins with the oldest, and tries others after it than this one.
		*r = round{tried: r.tried, groups: r.groups}
		return try{tried: true, err: err}
	}
	return try{tried: true, err: err, goOn: true}
}

// giveUp drops a payload that is never accepted.
func (l *lane) giveUp(name string, p *Payload, m spool.Mark, err error) {
	l.count(func(s *Stats) { s.GivenUp++ })
	l.remove(name)
	if l.round.head == name {
		l.round = round{}
	}
	a := l.apart[m.Group]
	if a != nil && a.gaveUp {
		return
	}
	if a != nil {
		a.gaveUp = true
	}
	l.log.Error(l.one+" is given up: it was not taken, however often it was tried",
		"service", m.Group, "pid", p.PID, "tries", m.Failed, "err", err)
}

// asideFor returns how long something is set aside after a number of failures.
func (l *lane) asideFor(failed int) time.Duration {
	d := longestAside
	if failed < 6 { // 10 s << 5 is more than five minutes
		d = min(firstAside<<(max(failed, 1)-1), longestAside)
	}
	return d/2 + time.Duration(l.random()*float64(d/2))
}

// noteAside notes why profiles are set aside. An empty text is noted once none is.
func (l *lane) noteAside(text string) {
	if text == "" && (len(l.apart) > 0 || l.Queue.Stats().Aside > 0) {
		return
	}
	l.count(func(s *Stats) { s.AsideError = text })
}
