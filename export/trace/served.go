package trace

import (
	"strconv"

	report "github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// servedSpan is an uninterrupted time in which a thread worked for one request or job.
type servedSpan struct {
	fromNS, toNS int64
	work         sampler.WorkID
	number       sampler.WorkNumber
}

// serve adds an interval to the list of times in which the thread worked for a request or job. If the last entry is
// about the same request or job, serve extends it.
func (t *Trace) serve(th *traceThread, i *gvl.Interval) {
	id := i.Serving.Work
	if id == 0 {
		return
	}
	n := len(th.served)
	if n > 0 && th.served[n-1].work == id && th.served[n-1].toNS == i.FromNS {
		th.served[n-1].toNS = i.ToNS
		return
	}
	number := t.dict.Work(id).Number
	if n > 0 && number != 0 && th.served[n-1].number == number && th.served[n-1].toNS == i.FromNS {
		th.served[n-1].toNS, th.served[n-1].work = i.ToNS, id
	} else if t.room(i.FromNS) {
		th.served = append(th.served, servedSpan{i.FromNS, i.ToNS, id, number})
	}
}

// servedName returns the name of a request or job. Call it only at the end of the measurement, because ddtop may learn
// the name only after the request has begun.
func servedName(dict *sampler.Dictionary, s *servedSpan) string {
	w := dict.Work(s.work)
	if w.Endpoint == "" {
		return report.UnknownOf(w.Kind.String())
	}
	return flamegraph.Printable(w.Endpoint)
}

// served writes the track of a thread's requests and jobs.
func (c *chromeProcess) served(th *traceThread) {
	for i := range th.served {
		s := &th.served[i]
		args := chromeArgs{What: "number " + strconv.FormatUint(uint64(s.number), 10)}
		c.slice(servedTID(th.id), servedName(c.dict, s), "request", "", s.fromNS, s.toNS, 0, args)
	}
}

func servedTID(id sampler.ThreadID) int { return chromeServedTID + int(id)%chromeTIDs }
