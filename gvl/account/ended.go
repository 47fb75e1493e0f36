package account

import "github.com/ddtop/ddtop/sampler"

// OtherEndpoints is the name under which EndedCounts adds up all endpoints beyond its limit.
const OtherEndpoints = "(other)"

// EndedCounts counts the requests and jobs that end, by their last known endpoint. Its numbers are the same as in
// Requests, but it does not keep the requests, so it can run for weeks. If changes of the GVL do not show which
// requests begin, it may miss requests shorter than the time between two readings of stacks. EndedCounts is not safe
// for concurrent use.
type EndedCounts struct {
	dict *sampler.Dictionary
	open map[sampler.WorkNumber]*countedRequest
	// of has the last request of each thread. With it, most requests are found without a search in the Dictionary.
	of     map[sampler.ThreadID]servedBy
	round  uint64
	counts map[string]int64
}

// servedBy is the request that a thread works for.
type servedBy struct {
	work  sampler.WorkID
	q     *countedRequest
	round uint64
}

// countedRequest is a request in progress.
type countedRequest struct {
	work sampler.Work
	// seenNS is when a sample last showed a thread that worked for the request. round is the number of this sample.
	// readings is the number of later samples.
	seenNS   int64
	round    uint64
	readings int
	fiber    bool // the request runs on a fiber that another fiber has resumed
}

// NewEndedCounts returns an EndedCounts. The IDs in the samples that it will get point into dict.
func NewEndedCounts(dict *sampler.Dictionary) *EndedCounts {
	return &EndedCounts{
		dict: dict, open: make(map[sampler.WorkNumber]*countedRequest), of: make(map[sampler.ThreadID]servedBy), counts: make(map[string]int64),
	}
}

// Feed adds the next sample. It uses three kinds of data. Any sample can show that a request has begun, because ddtop
// reads the stack of a thread at once if the thread begins new work. Changes of the GVL show requests that have begun
// between two samples. Only samples that read all stacks show that a request has ended.
func (c *EndedCounts) Feed(s *sampler.Sample) {
	for i := range s.Changes.List {
		if x := &s.Changes.List[i]; x.Thread != 0 && x.Doing.Work != 0 {
			c.serves(x.Thread, x.Doing.Work, x.AtNS, false)
		}
	}
	if s.Depth != sampler.StackTick {
		c.begun(s)
		return
	}
	c.round++
	for i := range s.Threads {
		t := &s.Threads[i]
		by := c.of[t.ID]
		unread := t.Serving.Work == 0 && t.Quality&sampler.WorkUnknown != 0 && by.q != nil && s.TimeNS-by.q.seenNS < suspendedNS
		if t.Serving.Work == 0 && !unread {
			delete(c.of, t.ID)
			continue
		}
		if !unread && by.work != t.Serving.Work {
			by = servedBy{work: t.Serving.Work, q: c.find(t.Serving.Work)}
		}
		by.round = c.round
		c.of[t.ID] = by
		if unread {
			by.q.round = c.round
		} else if by.q != nil {
			by.q.seenNS, by.q.round, by.q.readings, by.q.fiber = s.TimeNS, c.round, 0, len(t.Resumers) > 0
		}
	}
	for id, by := range c.of {
		if by.round != c.round {
			delete(c.of, id) // the thread has ended
		}
	}
	for number, q := range c.open {
		if q.round == c.round {
			continue
		}
		if q.readings++; hasLeft(q.fiber, q.readings, s.TimeNS-q.seenNS) {
			delete(c.open, number)
			c.count(q.work.Endpoint)
		}
	}
}

// begun adds the requests that a sample shows for the first time.
func (c *EndedCounts) begun(s *sampler.Sample) {
	for i := range s.Threads {
		if t := &s.Threads[i]; t.Serving.Work != 0 {
			c.serves(t.ID, t.Serving.Work, s.TimeNS, len(t.Resumers) > 0)
		}
	}
}

// serves notes that a thread works for a request from atNS on. fiber is true if the request runs on a fiber that
// another fiber has resumed.
func (c *EndedCounts) serves(thread sampler.ThreadID, work sampler.WorkID, atNS int64, fiber bool) {
	if work == c.of[thread].work {
		return
	}
	q := c.find(work)
	c.of[thread] = servedBy{work: work, q: q, round: c.round}
	if q != nil {
		q.seenNS, q.round, q.readings, q.fiber = atNS, c.round, 0, fiber
	}
}

// find returns the request with an ID. If the request is new, find adds it. It returns nil if dict does not have the
// ID, or if there are too many requests. If a request was counted as ended, but still continues, find treats it as new,
// and it is counted twice. This is rare. A request that only gets another name is not new, because it keeps its number.
func (c *EndedCounts) find(id sampler.WorkID) *countedRequest {
	w := c.dict.Work(id)
	q := c.open[w.Number]
	switch {
	case w.Number == 0 || q == nil && len(c.open) >= maxOpenRequests:
		return nil
	case q == nil:
		q = new(countedRequest)
		c.open[w.Number] = q
	}
	q.work = w
	return q
}

func (c *EndedCounts) count(endpoint string) {
	if endpoint == "" {
		return
	}
	if _, known := c.counts[endpoint]; !known && len(c.counts) >= maxEndpoints {
		endpoint = OtherEndpoints
	}
	c.counts[endpoint]++
}

// Take returns the number of requests that ended since the last call, by endpoint. It is nil if no request has ended.
// The caller owns the map.
func (c *EndedCounts) Take() map[string]int64 {
	if len(c.counts) == 0 {
		return nil
	}
	out := c.counts
	c.counts = make(map[string]int64)
	return out
}
