package kernel

import "testing"

// TestIdle: the machine's CPUs have been idle for some time. (That it never shrinks is not true of all kernels.)
func TestIdle(t *testing.T) {
	if ns, err := IdleNS(); err != nil || ns < 0 {
		t.Errorf("%d ns, %v", ns, err)
	}
}
