package recording

import (
	"fmt"

	"github.com/ddtop/ddtop/sampler"
)

// checkCPUUse returns an error if a reader would refuse the list of processes that used the CPUs.
func checkCPUUse(u *sampler.CPUUse) error {
	if u != nil && len(u.Users) > sampler.MaxCPUUsers {
		return fmt.Errorf("%w: %d processes that used the CPUs in a sample", errLimit, len(u.Users))
	}
	return nil
}

// carryCPUUse writes or reads which processes used the CPUs. If this is known, the number 1 comes first, and then all
// fields. The fields change only every few seconds, so differences to the previous list would save little. When
// reading, carryCPUUse makes a new object, because callers may have kept the previous one.
func carryCPUUse(w *wire, u *sampler.CPUUse) *sampler.CPUUse {
	var next sampler.CPUUse
	if u != nil {
		next = *u
	}
	if w.uint(bit(u != nil, 1)) == 0 {
		return nil
	}
	next.FromNS, next.AtNS = w.time(next.FromNS), w.time(next.AtNS)
	next.Contained = w.uint(bit(next.Contained, 1)) != 0
	for _, n := range [...]*int64{&next.CPUs, &next.AllNS, &next.UnseenNS, &next.OthersNS, &next.StolenNS, &next.LimitMilli} {
		*n = w.int(*n)
	}
	var users []sampler.CPUUser
	for i := range w.length(len(next.Users), sampler.MaxCPUUsers, 1) {
		x := at(next.Users, i)
		w.signed(&x.PID, x.PID)
		x.Processes = w.int(x.Processes)
		x.Name, x.NS = w.text(x.Name), w.int(x.NS)
		users = append(users, x)
	}
	if !w.reading {
		return u
	}
	if w.err() != nil {
		return nil
	}
	next.Users = users
	return w.names.CPUUse(&next)
}
