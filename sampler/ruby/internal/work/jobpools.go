package work

import "github.com/ddtop/ddtop/sampler"

// jobPool reads a pool of threads that run jobs with concurrent-ruby. v is an executor of GoodJob's own class, or a
// pool of Solid Queue that has an executor.
func (f *reader) jobPool(v uint64, role poolRole) sampler.Pool {
	p := sampler.Pool{Kind: sampler.PoolGoodJob, Threads: 0, Busy: 0, Max: sampler.UnknownCount, Queued: sampler.UnknownCount,
		Clients: sampler.UnknownCount}
	executor := v
	if role == roleSolidPool {
		p.Kind, p.Max, p.Queued = sampler.PoolSolidQueue, f.number(v, "@size"), 0
		if executor = f.ivar(v, "@executor"); !f.objects.IsObject(executor) {
			return p // the executor is made for the first job
		}
		p.Queued = f.length(executor, "@queue")
	} else {
		p.Max = f.number(v, "@max_length")
	}
	threads, ready := f.length(executor, "@pool"), f.length(executor, "@ready")
	p.Threads, p.Busy = threads, sampler.UnknownCount
	if threads >= 0 && ready >= 0 {
		p.Busy = max(threads-ready, 0)
	}
	return p
}

// queMember is what one object of Que adds to a quePool. The object is a worker, or a queue where workers wait for
// jobs.
type queMember struct {
	// worker is true if the object is a worker. In this case buffer is the object with the worker's jobs, and queued is
	// the number of these jobs.
	worker bool
	buffer uint64
	queued int64
	// waiting is how many workers of one priority wait for jobs. taken is how many jobs these workers were given, but
	// have not fetched yet.
	waiting, taken int64
}

func (f *reader) queMember(v uint64, role poolRole) (m queMember) {
	if role == roleQueWaiting {
		return queMember{waiting: max(f.number(v, "@waiting"), 0), taken: max(f.length(v, "@items"), 0)}
	}
	m = queMember{worker: true, buffer: f.ivar(v, "@job_buffer")}
	if m.queued = sampler.UnknownCount; f.objects.IsObject(m.buffer) {
		m.queued = f.length(m.buffer, "@array")
	}
	return m
}

// quePool has sums over the objects of Que.
type quePool struct {
	workers, waiting, taken int64
	buffers                 map[uint64]int64
}

func (q *quePool) add(m queMember) {
	if m.worker {
		q.workers++
		q.buffers[m.buffer] = m.queued
	}
	q.waiting += m.waiting
	q.taken += m.taken
}

// pool returns the sums over all members as a pool. A job that was given to a waiting worker counts as queued until the
// worker fetches it.
func (q *quePool) pool() sampler.Pool {
	p := sampler.Pool{Kind: sampler.PoolQue, Threads: q.workers, Busy: max(q.workers-q.waiting, 0), Max: sampler.UnknownCount,
		Queued: q.taken, Clients: sampler.UnknownCount}
	for _, n := range q.buffers {
		if n == sampler.UnknownCount {
			p.Queued = n
			break
		}
		p.Queued += n
	}
	return p
}
