package processes

import (
	"testing"

	"github.com/ddtop/ddtop/ui/scene"
)

// TestNoActionOnAProcessThatIsNotSampled: if the cursor is on a process that ddtop does not sample, keys such as save
// must do nothing. They must not act on the only sampled process instead.
func TestNoActionOnAProcessThatIsNotSampled(t *testing.T) {
	only := &scene.Member{}
	cursor := processKey{}
	p := &Page{rows: []*processRow{{Of: only}}}
	p.Table.Cursor = &cursor
	if got := p.Meant(); got != only {
		t.Errorf("without a cursor: %v, want the only process", got)
	}
	cursor.idle = 4245
	if got := p.Meant(); got != nil {
		t.Errorf("on a process that is not sampled: %v, want none", got)
	}
}
