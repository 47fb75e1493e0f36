package push

import (
	"context"
	"errors"
	"time"
)

const (
	// sendPatience is how long one try may take.
	sendPatience = 30 * time.Second
	// firstRest and longestRest bound the pause between two tries, which doubles each time. A destination may request
	// a longer pause, up to longestAsked.
	firstRest    = time.Second
	longestRest  = 5 * time.Minute
	longestAsked = time.Hour
	// lateRest limits the pause between two tries for the time lately after a payload was accepted. The waiting
	// payloads may be payloads that the destination refuses, and then new ones must not wait for minutes.
	lateRest = 10 * time.Second
	lately   = 10 * time.Minute
	// reminder is the interval between two reports that a destination is still out of reach.
	reminder = time.Hour
)

// maxLastTries bounds the tries that fail when it is time to end.
const maxLastTries = 3

// send sends the contents of the queue, oldest first, until the lane is closed and everything possible has been sent.
func (l *lane) send() {
	rest := time.Duration(0)
	lastTried := make(map[string]bool) // entries that failed after the end began
	for l.ctx.Err() == nil {
		all, closing := l.hasSpooled(), l.isClosing() // a try that began before the end is not the last one
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

// after notes a failure, and returns how long to wait now and what the rest before the next failure was.
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

// pauseForNews waits until the queue has a new payload, or the lane must end. If wait is not zero, it waits at most
// for wait.
func (l *lane) pauseForNews(wait time.Duration) {
	closing := l.closing
	if l.isClosing() {
		closing = nil // wait for entries that are still being spooled
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

// pause waits, or until it is time to end.
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

// deliver sends a payload, and removes it if it was accepted or refused. It returns an error if the payload must be
// tried again.
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
		l.Queue.Return() // it may be dropped while it waits
		return err
	}
	l.remove(name)
	return nil
}

func (l *lane) remove(name string) {
	if err := l.Queue.Remove(name); err != nil {
		// It is out of the list; after a restart it would be sent once more.
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

// remarked logs a remark about an accepted payload, once until it changes.
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

// failed notes that a try failed, and says so when that begins and every hour while it lasts.
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

// refused records that a payload was refused for good. Equal reasons are logged once until a payload is accepted
// again.
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
