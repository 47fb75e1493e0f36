package work

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// Lease is a connection pool of Active Record. Queue is the condition variable on which threads wait for a connection.
// Size is the largest number of connections. Owners are the Thread objects that hold a connection.
type Lease struct {
	Queue  uint64
	Size   int64
	Owners []uint64
}

// Leases reads the connection pools of Active Record that were found in the frames of threads. It reads the objects of
// connection_pool.rb and abstract_adapter.rb (Active Record 5 to 8).
func (f *Finder) Leases() []Lease {
	var out []Lease
	for v, role := range f.pools.members {
		if role != roleActiveRecord || len(out) >= sampler.MaxLeases {
			continue
		}
		var l Lease
		if f.member(v, func(poolRole) { l = f.lease(v) }) && l.Queue != 0 && l.Size > 0 {
			out = append(out, l)
		}
	}
	return out
}

func (f *reader) lease(v uint64) Lease {
	l := Lease{Size: f.number(v, "@size")}
	// The pool's @available is a queue. The queue's @cond is a condition of a monitor, and the @cond of this condition
	// is Ruby's ConditionVariable.
	at := v
	for _, name := range [...]string{"@available", "@cond", "@cond"} {
		if at = f.ivar(at, name); !f.objects.IsObject(at) {
			return l
		}
	}
	l.Queue = at
	first, n, _ := f.list(f.ivar(v, "@connections"))
	for i := range min(n, sampler.MaxOwners) {
		if connection := f.word(first + attach.Address(8*i)); f.objects.IsObject(connection) {
			if owner := f.ivar(connection, "@owner"); f.objects.IsObject(owner) {
				l.Owners = append(l.Owners, owner)
			}
		}
	}
	return l
}
