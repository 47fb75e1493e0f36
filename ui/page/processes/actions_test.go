package processes

import (
	"testing"

	"github.com/ddtop/ddtop/ui/scene"
)

// One process is sampled, and the cursor is on one that is not: nothing is done to the first.
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
