package datadog

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
)

// datagram matches the beginning of an event:
// https://docs.datadoghq.com/developers/dogstatsd/datagram_shell/?tab=events.
var datagram = regexp.MustCompile(`^_e\{(\d+),(\d+)\}:`)

// readEvent parses an event as the agent does: first the lengths of title and text, and then the other fields.
func readEvent(t *testing.T, b []byte) (title, text string, fields map[string]string) {
	t.Helper()
	m := datagram.FindSubmatch(b)
	if m == nil {
		t.Fatalf("no event: %q", b)
	}
	n, _ := strconv.Atoi(string(m[1]))
	k, _ := strconv.Atoi(string(m[2]))
	rest := b[len(m[0]):]
	if len(rest) < n+1+k || rest[n] != '|' {
		t.Fatalf("wrong lengths: %q", b)
	}
	title, text = string(rest[:n]), strings.ReplaceAll(string(rest[n+1:n+1+k]), `\n`, "\n")
	fields = make(map[string]string)
	for field := range strings.SplitSeq(strings.TrimPrefix(string(rest[n+1+k:]), "|"), "|") {
		key, value, ok := strings.Cut(field, ":")
		if tags, isTags := strings.CutPrefix(field, "#"); isTags {
			key, value, ok = "#", tags, true
		}
		if !ok {
			t.Fatalf("field %q of %q", field, b)
		}
		fields[key] = value
	}
	return title, text, fields
}

// TestEvents: a message arrives as one event, in one datagram, at the agent's socket for DogStatsD. This socket is in
// the same folder as the socket for profiles. The agent can read the event, whatever text the message has.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "dsd.socket"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := New(&url.URL{Scheme: "unix", Path: filepath.Join(dir, "apm.socket")}, "", "0.1")
	if err != nil {
		t.Fatal(err)
	}
	until := time.Unix(1e9+60, 0)
	for _, c := range []struct{ text, value string }{
		{"thread 1 waits", "prod"}, {"a|b\n|k:x|#y:z", "a|b,c\nd"}, {strings.Repeat("ä\n|", 9000), strings.Repeat("ü", 9000)}, {"\xff\xfe", "\xff"}, {"", ""},
	} {
		m := &alert.Message{ID: "x7", Event: alert.Start, Rule: "deadlock", Severity: "crit", Title: "Deadlock", Text: c.text, Service: "shop|x", Host: "h", PID: 7,
			Program: "puma", Processes: 1, Followed: 1, Since: time.Unix(1e9, 0), Tags: push.Tags{{Key: "service", Value: "shop|x"}, {Key: "env", Value: c.value}, {Key: "host", Value: "h"}}}
		for _, event := range []alert.Kind{alert.Start, alert.End} {
			if m.Event = event; event == alert.End {
				m.Until = &until
			}
			payload, err := d.Alerts().EncodeAlert(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Alerts().Send(t.Context(), &payload); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 64<<10)
			n, err := l.Read(b)
			if err != nil || n > maxEvent {
				t.Fatalf("%d bytes, %v", n, err)
			}
			title, text, fields := readEvent(t, b[:n])
			at, kind := "1000000000", "error"
			if event == alert.End {
				at, kind = "1000000060", "success"
			}
			if !strings.HasPrefix(title, "[crit] shop¦x: ") || fields["d"] != at || fields["h"] != "h" || fields["k"] != "x7" || fields["t"] != kind || len(fields) != 7 {
				t.Errorf("%q, %q: %v", title, text, fields)
			}
			tags := strings.Split(fields["#"], ",")
			if tags[0] != "rule:deadlock" || tags[1] != "severity:crit" || tags[2] != "service:shop¦x" || len(tags) > 4 {
				t.Errorf("tags %q", tags)
			}
		}
	}
	if err := os.Remove(filepath.Join(dir, "dsd.socket")); err != nil {
		t.Fatal(err)
	}
	if err := d.Alerts().Send(t.Context(), &push.Payload{Body: []byte("x")}); err == nil {
		t.Error("sent to no socket")
	}
	other, err := New(&url.URL{Scheme: "datadog", Host: "127.0.0.1"}, "", "0.1")
	if err != nil || other.Alerts() != nil {
		t.Error(fmt.Sprint("an agent by TCP has events: ", err))
	}
}
