package redact

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// NativeLocks returns locks of C code, with the names of libraries redacted as in NativeFrame.
func (r *Redactor) NativeLocks(n *sampler.NativeLocks) *sampler.NativeLocks {
	if r == nil || n == nil {
		return n
	}
	x := *n
	x.List = slices.Clone(x.List)
	for i := range x.List {
		x.List[i].Library = r.NativeFrame(sampler.NativeFrame{Library: x.List[i].Library}).Library
	}
	return &x
}
