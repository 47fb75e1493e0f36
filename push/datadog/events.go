package datadog

import (
	"context"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
)

const (
	// eventSocket is the name of the agent's socket for DogStatsD. It is in the folder of the socket for profiles.
	eventSocket = "dsd.socket"
	// maxEvent limits the size of an event, which is one datagram, in bytes. By default, the agent reads 8 KiB.
	// maxEventTags limits the size of the tags in an event, in bytes.
	maxEvent     = 8192
	maxEventTags = 2048
	// writePatience is how long Send waits while the agent's socket is full.
	writePatience = 5 * time.Second
)

// Events is an alert.Destination. It sends each message as an event of DogStatsD to the agent's socket.
type Events struct {
	alert.NoPeriods
	socket string
}

// Alerts returns the destination that sends events to the same agent. It needs the agent's unix socket. Alerts returns
// nil if ddtop reaches the agent over the network: there, an event would be a UDP datagram, which can get lost
// unnoticed.
func (d *Intake) Alerts() *Events {
	socket, ok := strings.CutPrefix(d.name, "unix://")
	if !ok {
		return nil
	}
	return &Events{socket: path.Join(path.Dir(socket), eventSocket)}
}

// String returns the URL of the socket.
func (e *Events) String() string { return "unix://" + e.socket }

// eventText escapes the characters that would end a field of an event too early.
var eventText = strings.NewReplacer("\n", `\n`, "\r", " ", "|", "¦")

// EncodeAlert makes the datagram of a message.
func (e *Events) EncodeAlert(m *alert.Message) (push.Payload, error) {
	kind := map[string]string{"info": "info", "warn": "warning", "crit": "error"}[m.Severity]
	if m.Event == alert.End {
		kind = "success"
	}
	// The host is not added as a tag, because an event has a field of its own for the host.
	var all []string
	n := 0
	add := func(key, value string) {
		text := eventText.Replace(strings.ReplaceAll(key+":"+value, ",", " "))
		if n += len(text) + 1; value != "" && n <= maxEventTags {
			all = append(all, text)
		}
	}
	add("rule", m.Rule)
	add("severity", m.Severity)
	for _, t := range m.Tags {
		if t.Key != "host" {
			add(t.Key, t.Value)
		}
	}
	title := strings.ToValidUTF8(eventText.Replace(m.Headline()), "?")
	rest := fmt.Sprintf("|d:%d|k:%s|p:normal|s:ddtop|t:%s|#%s", m.At().Unix(), m.ID, kind, strings.Join(all, ","))
	if m.Host != "" {
		rest = "|h:" + eventText.Replace(m.Host) + rest
	}
	text := strings.ToValidUTF8(eventText.Replace(m.Body()), "?")
	const head = len("_e{9999,9999}:|")
	room := max(maxEvent-head-len(title)-len(rest), 0)
	if len(text) > room {
		text = strings.TrimSuffix(strings.ToValidUTF8(text[:room], ""), `\`)
	}
	body := fmt.Sprintf("_e{%d,%d}:%s|%s%s", len(title), len(text), title, text, rest)
	return push.Payload{Body: []byte(body)}, nil
}

// Send sends an event as a datagram. The agent does not answer. So if Send returns no error, the datagram is in the
// agent's socket, but the agent may not have read it.
func (e *Events) Send(ctx context.Context, p *push.Payload) error {
	c, err := (&net.Dialer{Timeout: writePatience}).DialContext(ctx, "unixgram", e.socket)
	if err != nil {
		return err
	}
	defer c.Close()
	deadline := time.Now().Add(writePatience)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err = c.Write(p.Body)
	return err
}
