package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestNoViewNamesAnybody goes through all views of one process. With a Redactor (which hides names) no view may show a
// title, a directory or a note. Without a Redactor the views do show them. This proves that the test would notice a
// view that shows them.
func TestNoViewNamesAnybody(t *testing.T) {
	secrets := []string{"order-service", "/srv/", "app/", "zqnote"}
	for _, o := range []scene.Options{{}, {Redactor: redact.New()}} {
		s := newScreen(t, 200, 50, demosource.Options{Length: 30 * time.Second}, o)
		s.press("m")
		s.typed("zqnote")
		s.press("enter")
		all := s.text() + s.model.View().WindowTitle + summary(s.model)
		for _, id := range pagesOfOne() {
			s.model.Page = id
			s.model.Refresh()
			s.press("tab", "down", "down", "down")
			all += s.text()
		}
		for _, secret := range secrets {
			if has := strings.Contains(all, secret); has != (o.Redactor == nil) {
				t.Errorf("redacted %v: %q is on a view: %v", o.Redactor != nil, secret, has)
			}
		}
	}
}
