// Package push sends profiles, one a process and period, to the engines that keep them. A Destination knows how one of them
// wants a profile; a Pusher has a queue and a sender for each, so that one that is dead holds up no other.
//
// The packages below it are destinations, and push/spool, which keeps what is not sent yet. Nothing here knows how a profile is
// measured.
package push

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// Process says whose profile it is.
type Process struct {
	PID         int
	Title       string // the program's name without its arguments
	RubyVersion string // "3.4.11"
	StartedAt   time.Time
}

// Period is the profile of one process over one stretch of time.
type Period struct {
	Process  Process
	From, To time.Time
	// Seq numbers a process's periods, from 0 on.
	Seq int
	// Tags say whose it is to whom it is sent: service, env, host and others.
	Tags Tags
	// Pprof is the profile, compressed with gzip.
	Pprof []byte
	// Ended is how many requests and jobs were seen to end, by the route or class that the profile's label "trace endpoint" has;
	// nil: none.
	Ended map[string]int64
}

// ID is a UUID that names the period among all: the same one for the same period, so that one that is sent twice can be told.
func (p *Period) ID() string {
	id := p.IDBytes()
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// IDBytes is ID as 16 bytes.
func (p *Period) IDBytes() [16]byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "ddtop %s %s %d %d %d", p.Tags.Get("runtime-id"), p.Tags.Get("host"), p.Process.PID, p.From.UnixNano(), p.Seq))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	return [16]byte(sum[:16])
}

// Payload is what is sent to one destination, as it is kept in its spool: it holds no key and no password.
type Payload struct {
	ContentType string            `json:"content_type,omitempty"`
	Header      map[string]string `json:"header,omitempty"`
	// PID, Title, From and To are the Period's, Service is the tag.
	PID     int       `json:"pid"`
	Title   string    `json:"title"`
	Service string    `json:"service,omitempty"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Body    []byte    `json:"-"`
}

// Destination is where profiles are sent. Encode and Send may be called at the same time.
type Destination interface {
	// String is the URL, without what is secret in it.
	String() string
	// Encode makes a payload of a period. What it returns beside ContentType, Header and Body is filled in by the caller.
	Encode(*Period) (Payload, error)
	// Send sends a payload once. The error is a *RefusedError where another try would end the same way, a *LaterError where it was
	// said when to try again, and a *RemarkError where it was taken; after any other it is tried again.
	Send(context.Context, *Payload) error
}

// RefusedError means that a payload will not be taken, however often it is sent.
type RefusedError struct{ Err error }

// Error says why.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *RefusedError) Unwrap() error { return e.Err }

// LaterError means that the destination wants to be left alone for a while.
type LaterError struct {
	After time.Duration
	Err   error
}

// Error says why, and for how long.
func (e *LaterError) Error() string { return fmt.Sprintf("%v (asked to wait for %v)", e.Err, e.After) }

// Unwrap returns why.
func (e *LaterError) Unwrap() error { return e.Err }

// RemarkError is no failure: the payload was taken, and something was said about it that a person should know.
type RemarkError struct{ Err error }

// Error is what was said.
func (e *RemarkError) Error() string { return e.Err.Error() }

// Unwrap returns what was said.
func (e *RemarkError) Unwrap() error { return e.Err }

// fill notes of whom a payload is.
func (p *Payload) fill(period *Period) {
	p.PID, p.Title, p.From, p.To = period.Process.PID, period.Process.Title, period.From, period.To
	p.Service = period.Tags.Get("service")
}

// errFormat: what the spool holds is no payload.
var errFormat = errors.New("it is not a payload of this ddtop's")
