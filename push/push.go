// Package push sends profiles to destinations. Each profile covers one process and one period. A Destination encodes
// and sends profiles. A Pusher has a queue and a sender for each destination, so that a broken destination does not
// delay the others.
//
// Each destination is a package in a folder below push. The package push/spool stores unsent profiles. None of these
// packages measures anything.
package push

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// Process is the process that was profiled.
type Process struct {
	PID         int
	Title       string // the program's name without its arguments
	RubyVersion string // "3.4.11"
	StartedAt   time.Time
	// StartTicks is when the process started, in the kernel's clock ticks. It stays the same if the process replaces
	// its program (exec).
	StartTicks uint64
}

// Period is the profile of one process over one period of time.
type Period struct {
	Process  Process
	From, To time.Time
	// Seq numbers the profiles of one process, from 0 on.
	Seq int
	// Tags describe the process to the destination: service, env, host and others.
	Tags Tags
	// Pprof is the profile, compressed with gzip.
	Pprof []byte
	// Ended counts the requests and jobs whose end ddtop saw in the period. Its keys are the values of the profile's
	// label "trace endpoint" for these requests and jobs. Ended is nil if none ended.
	Ended map[string]int64
}

// ID returns a UUID of the period. The same period always has the same ID. So a receiver can recognize a period that it
// gets twice.
func (p *Period) ID() string {
	return uuidText(p.IDBytes())
}

// IDBytes returns the result of ID as 16 bytes.
func (p *Period) IDBytes() [16]byte {
	return uuidOf("ddtop %s %s %d %d %d",
		p.Tags.Get("runtime-id"), p.Tags.Get("host"), p.Process.PID, p.From.UnixNano(), p.Seq)
}

// uuidOf computes a UUID of version 8 from a text. The same text always has the same UUID.
func uuidOf(format string, args ...any) [16]byte {
	sum := sha256.Sum256(fmt.Appendf(nil, format, args...))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return [16]byte(sum[:16])
}

func uuidText(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Payload is an encoded profile for one destination. It contains no keys or passwords, because the spool stores it on
// disk.
type Payload struct {
	ContentType string            `json:"content_type,omitempty"`
	Header      map[string]string `json:"header,omitempty"`
	// PID, Title, From and To are the Period's values. Service is its tag "service".
	PID     int       `json:"pid"`
	Title   string    `json:"title"`
	Service string    `json:"service,omitempty"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Body    []byte    `json:"-"`
}

// A Destination is a server or folder to which profiles are sent. Encode and Send may be called at the same time.
type Destination interface {
	// String returns the URL without its secrets.
	String() string
	// Encode makes the payload of a profile in the form for this destination. It sets ContentType, Header and Body. The
	// caller sets the other fields.
	Encode(*Period) (Payload, error)
	// Send tries once to send a payload. The error is a *RefusedError if another attempt would fail too, and a
	// *LaterError if the destination requested a pause. A *RemarkError means that the destination accepted the payload,
	// but sent a remark that a person should read. After any other error the caller tries again.
	Send(context.Context, *Payload) error
}

// A RefusedError means that the destination will never accept the payload.
type RefusedError struct{ Err error }

// Error returns the reason.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// A LaterError means that the destination has requested a pause before the next try.
type LaterError struct {
	After time.Duration
	Err   error
}

// Error returns the reason and the time to wait.
func (e *LaterError) Error() string { return fmt.Sprintf("%v (asked to wait for %v)", e.Err, e.After) }

// Unwrap returns the reason.
func (e *LaterError) Unwrap() error { return e.Err }

// A RemarkError means that the destination accepted the payload, but sent a remark that a person should read.
type RemarkError struct{ Err error }

// Error returns the remark.
func (e *RemarkError) Error() string { return e.Err.Error() }

// Unwrap returns the remark.
func (e *RemarkError) Unwrap() error { return e.Err }

// errFormat is returned if data in the spool cannot be decoded as a payload.
var errFormat = errors.New("it is not a payload of this ddtop's")
