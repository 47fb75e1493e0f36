package kernel

import "testing"

// TestIdle: the machine's CPUs have been idle for some time, and that does not shrink.
func TestIdle(t *testing.T) {
	before, err := IdleNS()
	if err != nil {
		t.Fatal(err)
	}
	after, err := IdleNS()
	if err != nil || before < 0 || after < before {
		t.Errorf("%d ns, then %d: %v", before, after, err)
	}
}
