//go:build !linux

package kernel

import "github.com/ddtop/ddtop/sampler"

// ReadSelf returns ErrUnsupported: Linux only.
func ReadSelf() (sampler.Self, error) {
	return sampler.Self{}, &Error{"clock_gettime", "ddtop itself", ErrUnsupported}
}

// SelfCPU returns ErrUnsupported: Linux only.
func SelfCPU() (int64, error) { return 0, &Error{"clock_gettime", "ddtop itself", ErrUnsupported} }
