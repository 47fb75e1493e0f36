package kernel

import "testing"

// TestIdle: IdleNS returns the idle time of the machine's CPUs, and it is not negative. (It need not grow: on some
// kernels it can decrease.)
func TestIdle(t *testing.T) {
	if ns, err := IdleNS(); err != nil || ns < 0 {
		t.Errorf("%d ns, %v", ns, err)
	}
}
