package pushtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
)

// TestAlertsAsLogs: the collector's own receiver takes a message as a log record, by HTTP and by gRPC, with severity,
// attributes, resource and trace. What it refuses is not tried again.
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
