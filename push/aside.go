package push

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/push/spool"
)

// These limits help to find out why a payload fails. Either the destination refuses only this payload, or it accepts
// nothing at all. ddtop tries the oldest payload first. If it has failed headTries times, ddtop tries other payloads,
// without a pause.
//
// If the destination accepts another payload, the destination works. Then ddtop sets the oldest payload and all
// payloads of its service aside, and sends them again later. If the destination accepts no payload, it cannot be
// reached. Then the next round begins with the oldest payload again, so that all payloads arrive in order later.
const (
	// headTries is how often the oldest payload must fail before ddtop also tries other payloads. With the pauses
	// between tries, this takes three seconds.
	headTries = 3
	// maxProbes limits how many payloads are tried in one round after the oldest one. While a destination cannot be
	// reached, this keeps the cost low.
	maxProbes = 3
	// firstAside is how long a payload or a service is set aside at first. The time doubles with each further failure,
	// up to longestAside.
	firstAside   = 10 * time.Second
	longestAside = 5 * time.Minute
	// maxBlamed is how often a payload may fail while the destination accepts other payloads. Then it is dropped. With
	// the pauses between tries, this takes 40 minutes.
	maxBlamed = 10
	// maxAge limits the age of payloads. Destinations refuse older payloads, so ddtop drops an older one after a failed
	// try.
	maxAge = 7 * 24 * time.Hour
	// maxApart limits how many services may be set aside at the same time. While a service is set aside, ddtop tries
	// none of its payloads.
	maxApart = 1024
)

// round is a series of tries to find out whether the destination works. It begins with the oldest payload and goes on
// with other payloads.
type round struct {
	// head is the name of the payload with which the round began, the oldest one. It is empty between two rounds.
	head   string
	mark   spool.Mark
	probes int
	err    error // the error of the last try
	// tried has the names of the payloads that were tried since the destination last accepted a payload. groups has the
	// services of these payloads. At first, ddtop tries only one payload of each service. anyGroup is true after ddtop
	// has tried all services. Then it may try more payloads of the same services.
	tried, groups map[string]bool
	anyGroup      bool
}

// apart is a service that is set aside: its payloads fail, while payloads of other services are accepted.
type apart struct {
	failed int
	until  time.Time
	gaveUp bool // the log already has a line about a dropped payload of the service
}

// try is what happened in one attempt to send a payload.
type try struct {
	// tried is false if there was no payload to try. Then wait is the pause before the next try. If wait is zero, the
	// next try is made when a new payload comes.
	tried bool
	wait  time.Duration
	// err is not nil if the payload must be tried again. If goOn is true, the next payload is tried without a pause.
	err  error
	goOn bool
}

// group returns the service of a payload. Payloads are grouped by service because they probably fail together.
func (p *Payload) group() string { return cmp.Or(p.Service, p.Title, "unknown") }

// tryNext tries to send the oldest payload that is not set aside and that the round has not tried yet.
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
			// All payloads were tried, so the round ends.
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

// tryLast tries to send one payload when ddtop ends. It skips the payloads in the map tried. If the try fails, it adds
// the payload to this map.
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

// read reads the oldest payload for which may(name, mark) is true. A mark is what the spool stores about the failed
// tries of a payload. If the mark does not name the payload's service yet, read adds it. broken is an error if the data
// cannot be decoded as a payload.
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

// note stores a payload's mark in the spool: how often the payload was tried, and until when it is set aside. If the
// disk cannot store the mark, note logs this once.
func (l *lane) note(name string, m spool.Mark) {
	if err := l.Queue.Note(name, m); err != nil && !l.unkept {
		l.unkept = true
		l.log.Warn("the spool does not keep how often "+l.one+" was tried: after a restart it is tried as if it were new", "err", err)
	}
}

// mayTry reports whether a payload may be tried now. If the payload is set aside until a time before *wake, mayTry sets
// *wake to this time. After calls for all payloads, *wake is the earliest time at which one of them may be tried again.
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

// taken is called when the destination has accepted a payload. This shows that the destination works, so the round
// ends. If the round began with another payload, that payload has failed. Then taken sets it and its service aside.
func (l *lane) taken(name, group string, now time.Time, broken error) {
	if broken != nil {
		return // the payload could not be decoded, so it was not sent
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

// notTaken records that a payload was not accepted, and decides what to try next.
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

// next decides how a round continues after a failed try. asked is true if the destination has requested a pause. Then
// ddtop tries only one more payload after the pause, and the round ends.
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
		// The next round begins with the oldest payload again. Then it goes on with payloads that this round has not
		// tried.
		*r = round{tried: r.tried, groups: r.groups}
		return try{tried: true, err: err}
	}
	return try{tried: true, err: err, goOn: true}
}

// giveUp drops a payload that has failed too often or is too old.
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

// asideFor returns how long to set a payload or service aside, for a number of failures. Up to half of the time is
// random.
func (l *lane) asideFor(failed int) time.Duration {
	d := longestAside
	if failed < 6 { // 10 s << 5 is more than longestAside, which is five minutes
		d = min(firstAside<<(max(failed, 1)-1), longestAside)
	}
	return d/2 + time.Duration(l.random()*float64(d/2))
}

// noteAside sets Stats.AsideError, the reason why payloads are set aside. Callers pass an empty text when a payload was
// accepted. This clears the error, unless other payloads are still set aside.
func (l *lane) noteAside(text string) {
	if text == "" && (len(l.apart) > 0 || l.Queue.Stats().Aside > 0) {
		return
	}
	l.count(func(s *Stats) { s.AsideError = text })
}
