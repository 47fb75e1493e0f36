//go:build !linux

package kernel

import "github.com/ddtop/ddtop/sampler"

// ReadSelf returns ErrUnsupported: Linux only.
func ReadSelf() (sampler.Self, error) {
	return sampler.Self{}, &Error{"getrusage", "ddtop itself", ErrUnsupported}
}
