// Package alert sends messages to people and programs when a finding begins or ends. A finding is a problem that ddtop
// has found in a process. A Board collects the findings of all followed processes. If several processes of one service
// have the same finding, the Board makes only one alert of them. Messages go to destinations such as webhooks.
package alert

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/push"
)

// Process is a process that ddtop follows. The tag "service" names the service to which the process belongs.
type Process struct {
	push.Process
	Tags push.Tags
}

func (p *Process) service() string { return p.Tags.Get("service") }

// Finding is a problem that a process has at present.
type Finding struct {
	// Rule is the ID of the rule that raised the finding. Severity is "info", "warn" or "crit".
	Rule, Severity string
	// Title, Text and Next describe the finding. Next says what to do about it. Endpoint is the route or the job class
	// that has the largest share of the finding, or "".
	Title, Text, Next, Endpoint string
	Since                       time.Time
	// Explains is the share of the process's busy time that the finding explains, 0 to 1.
	Explains float64
	// Trace and Span are the IDs of the trace and the span in which the finding's first thread works. They are zero if
	// they are not known.
	Trace [16]byte
	Span  uint64
}

// level returns the severity as a number. The worst is 2.
func (f *Finding) level() int {
	switch f.Severity {
	case "crit":
		return 2
	case "warn":
		return 1
	}
	return 0
}

// Kind says whether a message is about the start or the end of a finding.
type Kind string

// The kinds of messages.
const (
	Start Kind = "start"
	End   Kind = "end"
)

// Message says that a finding of a service began or ended. Its JSON is the body for a webhook.
type Message struct {
	// ID is the same for the start and the end of an alert.
	ID       string `json:"id"`
	Event    Kind   `json:"event"`
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	// Several processes of the service may have the finding. Title, Text, Next, Endpoint and PID are about the process
	// in which the finding is worst.
	Title    string `json:"title"`
	Text     string `json:"text"`
	Next     string `json:"next"`
	Endpoint string `json:"endpoint,omitempty"`
	Service  string `json:"service"`
	Env      string `json:"env,omitempty"`
	Host     string `json:"host,omitempty"`
	PID      int    `json:"pid"`
	Program  string `json:"program"`
	// Processes is the number of processes of the service that have the finding. In a message about an end, it is how
	// many processes had the finding. Followed is the number of the service's processes that ddtop follows.
	Processes int `json:"processes"`
	Followed  int `json:"followed"`
	// Since is when the finding began, and Until is when it ended. Until is nil if the message is about a start. Unread
	// is true if the alert ends because ddtop cannot read the last process with the finding. Then the finding itself
	// may go on.
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until,omitempty"`
	Unread bool       `json:"unread,omitempty"`
	// Recording and Page say where a recording and an HTML page about the alert will be. ddtop writes these files only
	// half a minute after the start of the alert. Both are empty if there will be no files.
	Recording string `json:"recording,omitempty"`
	Page      string `json:"page,omitempty"`
	TraceID   string `json:"trace_id,omitempty"`
	SpanID    string `json:"span_id,omitempty"`
	// LeftOut is how many messages about this process were left out in the last hour.
	LeftOut int `json:"left_out,omitempty"`
	// Tags are the tags of the process that the field PID names.
	Tags push.Tags `json:"-"`
}

// At returns the time at which the finding began or ended.
func (m *Message) At() time.Time {
	if m.Until != nil {
		return *m.Until
	}
	return m.Since
}

// Headline returns what happened, in one line.
func (m *Message) Headline() string {
	what := m.Title
	switch {
	case m.Unread:
		what = "unwatched: " + m.Title
	case m.Event == End:
		what = "over: " + m.Title
	}
	return fmt.Sprintf("[%s] %s: %s", m.Severity, m.Service, what)
}

// Body returns the message as lines of text, without the headline.
func (m *Message) Body() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", m.Text)
	where := fmt.Sprintf("pid %d (%s)", m.PID, m.Program)
	if m.Host != "" {
		where += " on " + m.Host
	}
	switch {
	case m.Event == End && m.Processes > 1:
		fmt.Fprintf(&b, "%d processes had it, the worst was %s.", m.Processes, where)
	case m.Event == End:
		fmt.Fprintf(&b, "It was %s.", where)
	case m.Followed > 1:
		fmt.Fprintf(&b, "%d of %d processes have it, the worst is %s.", m.Processes, m.Followed, where)
	default:
		fmt.Fprintf(&b, "It is %s.", where)
	}
	if m.Until != nil {
		fmt.Fprintf(&b, " It lasted %s", units.Duration(m.Until.Sub(m.Since).Nanoseconds()))
		if m.Unread {
			b.WriteString(", then ddtop could not read the process")
		}
		b.WriteString(".")
	} else if m.Next != "" {
		fmt.Fprintf(&b, "\n→ %s", m.Next)
	}
	if m.Recording != "" {
		fmt.Fprintf(&b, "\nRecording: %s\nPage: %s", m.Recording, m.Page)
	}
	if m.LeftOut > 0 {
		fmt.Fprintf(&b, "\n%s in the last hour.", units.Plural(m.LeftOut, "message was left out", "messages were left out"))
	}
	return b.String()
}

// traceOf returns the IDs of a finding's trace and span as text. They are empty if the trace is not known.
func traceOf(f *Finding) (trace, span string) {
	if f.Trace == ([16]byte{}) {
		return "", ""
	}
	if f.Span != 0 {
		span = fmt.Sprintf("%016x", f.Span)
	}
	return hex.EncodeToString(f.Trace[:]), span
}

// A Destination accepts alert messages. It is also a push.Destination, so that a push.Pusher can send messages to it.
// It does not accept profiles.
type Destination interface {
	push.Destination
	// EncodeAlert makes the payload of a message. It sets ContentType and Body.
	EncodeAlert(*Message) (push.Payload, error)
}

// NoPeriods is embedded in a Destination that accepts no profiles. Its method Encode refuses them.
type NoPeriods struct{}

// Encode refuses a profile.
func (NoPeriods) Encode(*push.Period) (push.Payload, error) { return push.Payload{}, errNoPeriods }

// Send queues a message for all destinations of a Pusher. Each destination must be an alert.Destination.
func Send(p *push.Pusher, m *Message) {
	p.Offer(m.PID, func(d push.Destination) (push.Payload, error) {
		payload, err := d.(Destination).EncodeAlert(m)
		payload.PID, payload.Title, payload.Service = m.PID, m.Program, m.Service
		payload.From, payload.To = m.Since, m.At()
		return payload, err
	})
}
