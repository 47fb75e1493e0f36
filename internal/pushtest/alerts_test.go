package pushtest

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/DataDog/datadog-go/v5/statsd"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
	"github.com/ddtop/ddtop/push/datadog"
)

// TestAlertsAsLogs: ddtop sends a message about a finding as a log record, by HTTP and by gRPC. OpenTelemetry's own
// receiver must accept it, with its severity, attributes, resource and trace. If the receiver refuses a message
// permanently, ddtop reports a refusal and does not send the message again.
func TestAlertsAsLogs(t *testing.T) {
	c := startCollector(t)
	since := time.Date(2026, 11, 23, 8, 0, 0, 5, time.UTC)
	until := since.Add(time.Minute)
	m := &alert.Message{
		ID: "x7", Event: alert.Start, Rule: "deadlock", Severity: "crit", Title: "Deadlock", Text: "thread 1 waits", Service: "shop", PID: 4242, Program: "puma",
		Processes: 3, Followed: 4, Since: since, TraceID: "0123456789abcdef0123456789abcdef", SpanID: "fedcba9876543210", Recording: "/captures/x.ddtop", Page: "/captures/x.html",
		Tags: push.Tags{{Key: "service", Value: "shop"}, {Key: "env", Value: "prod"}},
	}
	over := *m
	over.Event, over.Until = alert.End, &until
	n := 0
	for _, to := range []string{c.http, c.grpc} {
		d := otlpAt(t, to).Alerts()
		for _, m := range []*alert.Message{m, &over} {
			payload, err := d.EncodeAlert(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Send(t.Context(), &payload); err != nil {
				t.Fatalf("%s: %v", to, err)
			}
			if n++; len(c.logs) != n || c.logs[n-1].LogRecordCount() != 1 {
				t.Fatalf("%s: %d requests with logs arrived", to, len(c.logs))
			}
			resource := c.logs[n-1].ResourceLogs().At(0)
			record := resource.ScopeLogs().At(0).LogRecords().At(0)
			for key, want := range map[string]string{"service.name": "shop", "deployment.environment.name": "prod", "process.pid": "4242", "process.executable.name": "puma"} {
				if v, _ := resource.Resource().Attributes().Get(key); v.AsString() != want {
					t.Errorf("%s: resource %s is %q", to, key, v.AsString())
				}
			}
			for key, want := range map[string]string{"ddtop.alert.id": "x7", "ddtop.finding.rule": "deadlock", "ddtop.finding.event": string(m.Event),
				"ddtop.finding.processes": "3", "ddtop.capture.recording": "/captures/x.ddtop"} {
				if v, _ := record.Attributes().Get(key); v.AsString() != want {
					t.Errorf("%s: attribute %s is %q", to, key, v.AsString())
				}
			}
			level, at := plog.SeverityNumberError, since
			if m.Event == alert.End {
				level, at = plog.SeverityNumberInfo, until
			}
			if record.SeverityNumber() != level || !record.Timestamp().AsTime().Equal(at) || record.TraceID().String() != m.TraceID || record.SpanID().String() != m.SpanID ||
				!strings.HasPrefix(record.Body().AsString(), m.Headline()) || record.EventName() != "ddtop.finding."+string(m.Event) {
				t.Errorf("%s: %v %v %v %v %q", to, record.SeverityNumber(), record.Timestamp().AsTime(), record.TraceID(), record.SpanID(), record.Body().AsString())
			}
		}
		c.set(consumererror.NewPermanent(errors.New("no")))
		payload, _ := d.EncodeAlert(m)
		var refused *push.RefusedError
		if err := d.Send(t.Context(), &payload); !errors.As(err, &refused) {
			t.Errorf("%s: a refusal for good is %v", to, err)
		}
		c.set(nil)
	}
}

// datagrams keeps the packets that Datadog's own client library sends to the agent.
type datagrams struct{ bytes.Buffer }

// Close implements io.Closer and does nothing.
func (*datagrams) Close() error { return nil }

// TestEventsAreThoseOfTheClient: for the same message about a finding, ddtop sends the same event to the agent as
// Datadog's own client library. Only the order of the fields may differ.
func TestEventsAreThoseOfTheClient(t *testing.T) {
	for _, name := range []string{"DD_ENTITY_ID", "DD_ENV", "DD_SERVICE", "DD_VERSION", "DD_EXTERNAL_ENV"} {
		t.Setenv(name, "")
	}
	d, err := datadog.New(&url.URL{Scheme: "unix", Path: "/run/datadog/apm.socket"}, "", "0.1")
	if err != nil {
		t.Fatal(err)
	}
	until := time.Date(2026, 11, 23, 8, 1, 0, 0, time.UTC)
	start := alert.Message{
		ID: "x7", Event: alert.Start, Rule: "deadlock", Severity: "crit", Title: "Deadlock", Text: "thread 1 waits,\nand grün is #2", Service: "shop", PID: 4242,
		Program: "puma", Host: "web-1", Processes: 3, Followed: 4, Since: until.Add(-time.Minute), Recording: "/captures/x.ddtop",
		Tags: push.Tags{{Key: "service", Value: "shop"}, {Key: "env", Value: "prod"}},
	}
	warns, over := start, start
	warns.Severity, over.Event, over.Until = "warn", alert.End, &until
	for m, kind := range map[*alert.Message]statsd.EventAlertType{&start: statsd.Error, &warns: statsd.Warning, &over: statsd.Success} {
		var out datagrams
		client, err := statsd.NewWithWriter(&out, statsd.WithoutTelemetry(), statsd.WithoutOriginDetection(), statsd.WithoutClientSideAggregation())
		if err != nil {
			t.Fatal(err)
		}
		e := &statsd.Event{
			Title: m.Headline(), Text: m.Body(), Timestamp: m.At(), Hostname: "web-1", AggregationKey: "x7", Priority: statsd.Normal, SourceTypeName: "ddtop",
			AlertType: kind, Tags: []string{"rule:deadlock", "severity:" + m.Severity, "service:shop", "env:prod"},
		}
		for _, err := range []error{client.Event(e), client.Close()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		payload, err := d.Alerts().EncodeAlert(m)
		if err != nil {
			t.Fatal(err)
		}
		fields := func(text string) (head string, rest []string) {
			all := strings.Split(strings.TrimSuffix(text, "\n"), "|")
			rest = all[min(2, len(all)):]
			slices.Sort(rest)
			return strings.Join(all[:len(all)-len(rest)], "|"), rest
		}
		head, rest := fields(string(payload.Body))
		if want, others := fields(out.String()); head != want || !slices.Equal(rest, others) {
			t.Errorf("ddtop sends %q %q, the client %q %q", head, rest, want, others)
		}
	}
}
