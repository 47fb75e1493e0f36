package redact

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// CPUUse returns which processes used the CPUs, with their names redacted by the method Program.
func (r *Redactor) CPUUse(u *sampler.CPUUse) *sampler.CPUUse {
	if r == nil || u == nil {
		return u
	}
	x := *u
	x.Users = slices.Clone(x.Users)
	for i := range x.Users {
		x.Users[i].Name = r.Program(x.Users[i].Name)
	}
	return &x
}
