package push

import (
	"context"
	"errors"
	"time"
)

const (
	// sendPatience limits how long one try to send a payload may take.
	sendPatience = 30 * time.Second
	// firstRest is the pause after the first failed try. It doubles with each further failure, up to longestRest. A
	// destination may request a longer pause, up to longestAsked.
	firstRest    = time.Second
	longestRest  = 5 * time.Minute
	longestAsked = time.Hour
	// lateRest limits the pause between two tries if the destination accepted a payload in the last ten minutes
	// (lately). Such a destination may refuse only the payloads that wait now, and accept new ones. So new payloads
	// must not wait for minutes.
	lateRest = 10 * time.Second
	lately   = 10 * time.Minute
	// reminder is the interval at which the log repeats a line about a lasting problem. Examples are a destination out
	// of reach and a full spool.
	reminder = time.Hour
)

// maxLastTries limits how many tries may fail after Close was called. After the last of them, the lane ends.
const maxLastTries = 3

// send sends the payloads in the queue, the oldest first. It ends when the lane is closed and everything that can be
// sent was sent.
func (l *lane) send() {
	rest := time.Duration(0)
	lastTried := make(map[string]bool) // payloads that failed after the lane was closed
	for l.ctx.Err() == nil {
		// Read both before the try. If one of them changes during the try, send tries once more.
		all, closing := l.hasSpooled(), l.isClosing()
		var t try
		if closing {
			t = l.tryLast(lastTried)
		} else {
			t = l.tryNext(time.Now())
		}
		switch {
		case t.err == nil && t.tried:
			rest = 0
		case closing && (t.err != nil && (!t.tried || len(lastTried) >= maxLastTries) || t.err == nil && all):
			return
		case closing && t.err != nil:
		case t.err == nil:
			l.pauseForNews(t.wait)
		case t.goOn:
		default:
			var again time.Duration
			again, rest = l.after(t.err, rest)
			l.pause(again)
		}
	}
}

// after returns two durations after a failed try. wait is how long to wait now. rest is what the caller must pass as
// last in the next call: twice last, up to a limit. wait is rest minus a random part, which is up to half of it.
func (l *lane) after(err error, last time.Duration) (wait, rest time.Duration) {
	longest := longestRest
	if last := l.figures().LastSent; !last.IsZero() && time.Since(last) < lately {
		longest = lateRest
	}
	rest = min(max(2*last, firstRest), longest)
	wait = rest/2 + time.Duration(l.random()*float64(rest/2))
	var later *LaterError
	if errors.As(err, &later) {
		wait = max(wait, min(later.After, longestAsked))
	}
	return wait, rest
}

// pauseForNews waits until the queue has a new payload or the lane must end. If wait is not zero, pauseForNews waits at
// most this long.
func (l *lane) pauseForNews(wait time.Duration) {
	closing := l.closing
	if l.isClosing() {
		// closing is closed already and would end the wait at once, so ignore it: the goroutine of spool still adds
		// payloads
		closing = nil
	}
	var over <-chan time.Time
	if wait > 0 {
		over = time.After(wait)
	}
	select {
	case <-l.changed:
	case <-over:
	case <-closing:
	case <-l.ctx.Done():
	}
}

// pause waits for a time, but ends at once when the lane must end.
func (l *lane) pause(wait time.Duration) {
	select {
	case <-time.After(wait):
	case <-l.closing:
	case <-l.ctx.Done():
	}
}

func (l *lane) isClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

func (l *lane) hasSpooled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spooled
}

// deliver sends a payload. If the destination accepts or refuses the payload, deliver removes it from the queue.
// deliver returns an error if the payload must be sent again later. broken is the error of decoding the payload, or
// nil.
func (l *lane) deliver(name string, payload *Payload, broken error) error {
	err := broken
	if err == nil {
		ctx, cancel := context.WithTimeout(l.ctx, sendPatience)
		err = l.Send(ctx, payload)
		cancel()
	}
	var refused *RefusedError
	var remark *RemarkError
	switch {
	case err == nil || errors.As(err, &remark):
		l.sent(len(payload.Body))
		l.remarked(remark)
	case errors.As(err, &refused):
		l.refused(payload, err)
	default:
		l.Queue.Return() // nothing is being sent now, so a full queue may drop the payload again
		return err
	}
	l.remove(name)
	return nil
}

func (l *lane) remove(name string) {
	if err := l.Queue.Remove(name); err != nil {
		// The payload is not in the queue's list now, but its file could not be removed from the disk. So ddtop would
		// send the payload again after a restart.
		l.log.Error(l.one+" that was sent could not be removed from the spool", "err", err)
	}
}

func (l *lane) sent(bytes int) {
	l.mu.Lock()
	l.stats.Sent++
	l.stats.SentBytes += int64(bytes)
	l.stats.LastSent = time.Now()
	since := l.troubled
	recovered := l.stats.LastError != "" && !since.IsZero()
	l.stats.LastError, l.troubled, l.sayAt = "", time.Time{}, time.Time{}
	l.mu.Unlock()
	if recovered {
		s := l.Queue.Stats()
		l.log.Info(l.many+" are taken again", "after", time.Since(since).Round(time.Second), "waiting", s.Count, "dropped_since_start", s.Dropped)
	}
}

// remarked logs a destination's remark about an accepted payload. It does not log a remark that is the same as the
// previous one.
func (l *lane) remarked(remark *RemarkError) {
	text := ""
	if remark != nil {
		text = remark.Error()
	}
	if text != "" && text != l.remark {
		l.log.Warn(l.one+" was taken, with a remark", "remark", text)
	}
	l.remark = text
}

// failed records that a try to send failed. It logs this at the first failure, and then every hour while sending fails.
func (l *lane) failed(err error) {
	l.mu.Lock()
	l.stats.Failures++
	now := time.Now()
	if l.troubled.IsZero() {
		l.troubled = now
	}
	say := !now.Before(l.sayAt)
	if say {
		l.sayAt = now.Add(reminder)
	}
	l.stats.LastError = err.Error()
	l.mu.Unlock()
	if say {
		l.log.Warn("sending failed and is tried again", "err", err, "waiting", l.Queue.Stats().Count)
	}
}

// refused records that the destination refused a payload for good. It logs the reason, unless the previous failure had
// the same reason and no payload was accepted since then.
func (l *lane) refused(p *Payload, err error) {
	l.mu.Lock()
	l.stats.Refused++
	said := l.stats.LastError == err.Error()
	l.stats.LastError = err.Error()
	l.mu.Unlock()
	if said {
		return
	}
	args := []any{"err", err}
	if p != nil {
		args = append(args, "pid", p.PID, "program", p.Title)
	}
	l.log.Error(l.one+" was refused and is dropped", args...)
}
