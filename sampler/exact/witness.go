package exact

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// maxSeen limits how many holders, seen in samples, can wait to be compared with records. If more are seen, they are
// not compared.
const maxSeen = 1 << 14

// seen is a fact from a sample: at this time, the thread tid held the GVL. Records are compared with this fact.
type seen struct {
	tid  int32
	atNS int64
}

// Witness has the holders of the GVL that samples saw. It compares them with the records of probes, to find wrong
// records.
type Witness struct {
	seen []seen // in order of time
	// Ractors is true if the process has more than one ractor.
	Ractors bool
	// owner is the holder of the GVL in the last sample with a known holder. Moved counts changes of the owner.
	owner     sampler.ThreadID
	ownerSeen bool
	Moved     int
}

// Saw adds a sample. The samples must come in order of time. The parameter on is true while exact mode follows the GVL,
// and fromNS is when it began to do so.
func (x *Witness) Saw(s *sampler.Sample, on bool, fromNS int64) {
	if len(s.Ractors) > 1 {
		x.Ractors = true
	}
	if len(s.Ractors) != 1 || !on {
		return
	}
	owner := s.Ractors[0].OwnerStart
	if owner != s.Ractors[0].OwnerEnd || s.ReadNS > SlackNS {
		return
	}
	if s.TimeNS >= fromNS+SlackNS {
		if x.ownerSeen && owner != x.owner {
			x.Moved++
		}
		x.owner, x.ownerSeen = owner, true
	}
	if owner == 0 || len(x.seen) >= maxSeen {
		return
	}
	for i := range s.Threads {
		if t := &s.Threads[i]; t.ID == owner && t.Bits&sampler.BitLinked != 0 && t.TID != 0 {
			x.seen = append(x.seen, seen{t.TID, s.TimeNS})
			return
		}
	}
}

// Compare compares the holders in samples from fromNS on with the records. fedNS is the time up to which the Machine
// has been fed with records. Later samples wait for the next call.
func (x *Witness) Compare(to *Machine, fromNS, fedNS int64) {
	n := 0
	for ; n < len(x.seen) && x.seen[n].atNS+SlackNS <= fedNS; n++ {
		if x.seen[n].atNS >= fromNS+SlackNS {
			to.Compare(x.seen[n].tid, x.seen[n].atNS)
		}
	}
	x.seen = slices.Delete(x.seen, 0, n)
}
