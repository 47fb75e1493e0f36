package rerun

import "testing"

// noted is a test that keeps its attributes.
type noted struct {
	testing.TB
	key, value string
}

func (n *noted) Helper()                { n.TB.Helper() }
func (n *noted) Attr(key, value string) { n.key, n.value = key, value }

func TestAttributes(t *testing.T) {
	n := &noted{TB: t}
	if Process(n); n.key != Key || n.value != ByProcess {
		t.Errorf("Process: %q %q", n.key, n.value)
	}
	// testing refuses a value of several lines.
	if Never(n, "one stale name\n is a defect "); n.value != "never:one stale name is a defect" {
		t.Errorf("Never: %q", n.value)
	}
}
