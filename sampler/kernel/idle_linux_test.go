package kernel

import "testing"

// TestIdle: the kernel reports the idle time of the machine's CPUs, which is not negative. (On some kernels it can
// decrease.)
func TestIdle(t *testing.T) {
	if ns, err := IdleNS(); err != nil || ns < 0 {
		t.Errorf("%d ns, %v", ns, err)
	}
}
