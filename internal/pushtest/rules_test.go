package pushtest

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
	"github.com/ddtop/ddtop/push/status"
)

// TestAlertRules: Prometheus can read ddtop's file with alert rules. Prometheus' own tool promtool checks this. ddtop
// publishes each metric that the file names.
func TestAlertRules(t *testing.T) {
	const file = "../../packaging/prometheus/ddtop-alerts.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Errorf("%s: %v", file, err)
	}
	if t.Failed() || len(groups.Groups) == 0 || len(groups.Groups[0].Rules) < 3 {
		t.Fatalf("%+v", groups)
	}
	s := push.Stats{Destination: "https://x"}
	f := &status.Figures{Version: "0.1", Watched: true, Findings: []alert.Count{{Rule: "deadlock", Severity: "crit", Service: "shop", Active: 1, Raised: 2}},
		Alerts: []push.Stats{s}, Captures: []push.Stats{s}}
	var b bytes.Buffer
	if err := status.Write(&b, f); err != nil {
		t.Fatal(err)
	}
	all := parse(t, b.Bytes())
	for _, name := range regexp.MustCompile(`ddtop_\w+`).FindAllString(string(text), -1) {
		if all[name] == nil {
			t.Errorf("ddtop has no metric %s", name)
		}
	}
}
