package otlp

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
	"github.com/ddtop/ddtop/push/protobuf"
)

const (
	// logsPath and logsProcedure are OTLP's paths for logs over HTTP and over gRPC.
	logsPath      = "/v1/logs"
	logsProcedure = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	// noLogs is the explanation that ddtop adds if a server does not accept logs.
	noLogs = "it takes no logs by OTLP: a collector needs a pipeline \"logs\" with the receiver otlp"
)

// Logs is an alert.Destination. It sends each message as a log record to the server that also gets the profiles.
type Logs struct {
	alert.NoPeriods
	*Collector
}

// Alerts returns the destination that sends alerts to the same server as the profiles.
func (d *Collector) Alerts() *Logs {
	own := *d
	own.to, own.procedure = d.root+logsPath, logsProcedure
	own.parts, own.missing = "log records", noLogs
	own.header = d.header.Clone()
	own.header.Del(versionHeader)
	return &Logs{Collector: &own}
}

// Encode returns an error, because Logs sends no profiles.
func (l *Logs) Encode(p *push.Period) (push.Payload, error) { return l.NoPeriods.Encode(p) }

// Send sends a log record. If the server's status is a success, Send returns no error, even if the rest of the answer
// is missing. After an error, ddtop would send the record again, and this would raise a second alarm.
func (l *Logs) Send(ctx context.Context, p *push.Payload) error {
	err := l.Collector.Send(ctx, p)
	var cut *push.CutError
	if errors.As(err, &cut) {
		return nil
	}
	return err
}

// Numbers of fields in opentelemetry.proto.logs.v1.
const (
	scopeLogs protobuf.Field = 2

	logTime       protobuf.Field = 1
	logSeverity   protobuf.Field = 2
	logLevel      protobuf.Field = 3
	logBody       protobuf.Field = 5
	logAttributes protobuf.Field = 6
	logTrace      protobuf.Field = 9
	logSpan       protobuf.Field = 10
	logObserved   protobuf.Field = 11
	logEvent      protobuf.Field = 12
)

// severities maps ddtop's severities to OpenTelemetry's numbers and words for them.
var severities = map[string]struct {
	number int64
	word   string
}{"info": {9, "INFO"}, "warn": {13, "WARN"}, "crit": {17, "ERROR"}}

// EncodeAlert returns a message as a compressed ExportLogsServiceRequest.
func (l *Logs) EncodeAlert(m *alert.Message) (push.Payload, error) {
	at := uint64(m.At().UnixNano())
	level := severities[m.Severity]
	if m.Event == alert.End {
		level = severities["info"]
	}
	b := protobuf.AppendFixed64(nil, logTime, at)
	b = protobuf.AppendFixed64(b, logObserved, at)
	b = protobuf.AppendInt(b, logSeverity, level.number)
	b = protobuf.AppendBytes(b, logLevel, level.word)
	b = protobuf.AppendBytes(b, logEvent, "ddtop.finding."+string(m.Event))
	b = protobuf.AppendBytes(b, logBody, anyText(m.Headline()+"\n"+m.Body()))
	for _, a := range []struct {
		key   string
		value []byte
	}{
		{"ddtop.alert.id", anyText(m.ID)}, {"ddtop.finding.event", anyText(string(m.Event))}, {"ddtop.finding.rule", anyText(m.Rule)},
		{"ddtop.finding.severity", anyText(m.Severity)}, {"ddtop.finding.title", anyText(m.Title)}, {"ddtop.finding.text", anyText(m.Text)},
		{"ddtop.finding.next", anyText(m.Next)}, {"ddtop.endpoint", anyText(m.Endpoint)}, {"ddtop.finding.processes", anyNumber(int64(m.Processes))},
		{"ddtop.service.processes", anyNumber(int64(m.Followed))}, {"ddtop.capture.recording", anyText(m.Recording)}, {"ddtop.capture.page", anyText(m.Page)},
	} {
		if string(a.value) != string(anyText("")) {
			pair := protobuf.AppendBytes(protobuf.AppendBytes(nil, attributeKey, a.key), attributeValue, a.value)
			b = protobuf.AppendBytes(b, logAttributes, pair)
		}
	}
	for field, text := range map[protobuf.Field]string{logTrace: m.TraceID, logSpan: m.SpanID} {
		if id, err := hex.DecodeString(text); err == nil && len(id) > 0 {
			b = protobuf.AppendBytes(b, field, id)
		}
	}
	who := protobuf.AppendBytes(protobuf.AppendBytes(nil, scopeName, scope), scopeVersion, l.own)
	scopes := protobuf.AppendBytes(protobuf.AppendBytes(nil, scopeScope, who), scopeLogs, b)
	of := resourceOf(&push.Period{Process: push.Process{PID: m.PID, Title: m.Program}, Tags: m.Tags})
	resources := protobuf.AppendBytes(protobuf.AppendBytes(nil, resourceResource, of), resourceScopes, scopes)
	body, err := compress(protobuf.AppendBytes(nil, requestResources, resources))
	return push.Payload{ContentType: contentType, Body: body}, err
}
