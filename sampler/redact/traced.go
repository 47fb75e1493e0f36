package redact

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// Traced returns the lines of code that allocated objects, with paths redacted in the same way as in Frame.
func (r *Redactor) Traced(t *sampler.HeapTraced) *sampler.HeapTraced {
	if r == nil {
		return t
	}
	return withPaths(t, r.file)
}

// BareTraced returns the lines of code that allocated objects, with the directories removed from all paths.
func BareTraced(t *sampler.HeapTraced) *sampler.HeapTraced { return withPaths(t, withoutDirectories) }

func withPaths(t *sampler.HeapTraced, of func(string) string) *sampler.HeapTraced {
	if t == nil {
		return nil
	}
	x := *t
	x.Places = slices.Clone(x.Places)
	for i := range x.Places {
		x.Places[i].Path = of(x.Places[i].Path)
	}
	return &x
}
