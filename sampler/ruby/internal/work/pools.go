package work

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxMembers limits how many objects of servers ddtop remembers. These are pools, reactors, and the workers of Sidekiq
// and Que. There can be hundreds of workers.
const maxMembers = 1024

// controlPool is the name of the pool of Puma's control server (lib/puma/runner.rb), which serves no requests of the
// application.
const controlPool = "ctl"

// poolRole is the role of a server's object in a pool of threads: it can be the pool itself, or a worker, for example.
type poolRole uint8

const (
	roleNone poolRole = iota
	rolePuma
	roleReactor
	roleSidekiq
	// roleWorker is a worker of concurrent-ruby's executor. If the executor belongs to GoodJob, the executor has
	// roleGoodJob.
	roleWorker
	roleGoodJob
	// roleSolidWorker is a worker of Solid Queue. The worker's pool has roleSolidPool.
	roleSolidWorker
	roleSolidPool
	roleQue
	// roleQueWaiting is a queue of Que. All workers of one priority wait in it for jobs.
	roleQueWaiting
	// roleActiveRecord is a pool of connections, not of threads.
	roleActiveRecord
)

// poolFiles has one row for each role, at the index role-1. A row has a file of a server, and the class whose objects
// run the methods in this file. ddtop finds GoodJob's executor through its workers, so the row for this role has no
// file. Read-only.
var poolFiles = [...]struct {
	role        poolRole
	file, class string
}{
	{rolePuma, "/puma/thread_pool.rb", "Puma::ThreadPool"},
	{roleReactor, "/puma/reactor.rb", "Puma::Reactor"},
	{roleSidekiq, "/sidekiq/processor.rb", "Sidekiq::Processor"},
	{roleWorker, "/concurrent/executor/ruby_thread_pool_executor.rb", "Concurrent::RubyThreadPoolExecutor::Worker"},
	{roleGoodJob, "", "GoodJob::Scheduler::ThreadPoolExecutor"},
	{roleSolidWorker, "/solid_queue/processes/poller.rb", "SolidQueue::Worker"},
	{roleSolidPool, "/solid_queue/pool.rb", "SolidQueue::Pool"},
	{roleQue, "/que/worker.rb", "Que::Worker"},
	{roleQueWaiting, "/que/job_buffer.rb", "Que::JobBuffer::PriorityQueue"},
	{roleActiveRecord, "/active_record/connection_adapters/abstract/connection_pool.rb", "ActiveRecord::ConnectionAdapters::ConnectionPool"},
}

func poolRoleOf(path string) poolRole {
	for _, f := range poolFiles {
		if f.file != "" && strings.HasSuffix(path, f.file) {
			return f.role
		}
	}
	return roleNone
}

// pools has the objects of servers that belong to pools of threads. ddtop finds such an object as the receiver of a
// frame.
type pools struct {
	members map[uint64]poolRole
}

func (p *pools) note(self uint64, role poolRole) {
	if role == roleNone || len(p.members) >= maxMembers {
		return
	}
	if p.members == nil {
		p.members = make(map[uint64]poolRole)
	}
	p.members[self] = role
}

// member calls the function read for v, an object of a server. It first checks that v still has the class that belongs
// to its role. If v has another class, it was freed or moved, and member forgets it. member returns false if it did not
// call read, or if memory could not be read.
func (f *Finder) member(v uint64, read func(role poolRole)) bool {
	role, class := f.pools.members[v], ""
	err := f.objects.Read(func() error {
		f.failed = nil
		if class = f.classOf(v); f.failed == nil && class == poolFiles[role-1].class {
			read(role)
		}
		return f.failed
	})
	if err == nil && class != poolFiles[role-1].class || heap.Displaced(err) {
		delete(f.pools.members, v)
		return false
	}
	return err == nil
}

// lead replaces each known worker by the pool to which it belongs. It is needed because a pool exists longer than its
// workers.
func (f *Finder) lead() {
	for v, role := range f.pools.members {
		pool, poolIs := uint64(0), roleGoodJob
		switch role {
		case roleSolidWorker:
			poolIs = roleSolidPool
		case roleWorker:
		default:
			continue
		}
		if f.member(v, func(poolRole) { pool = f.ivar(v, "@pool") }) && f.objects.IsObject(pool) {
			delete(f.pools.members, v)
			f.pools.note(pool, poolIs)
		}
	}
}

// Pools reads the pools of threads that were found in frames. It leaves out a pool that cannot be read.
func (f *Finder) Pools() []sampler.Pool {
	f.lead()
	var out []sampler.Pool
	var owners []uint64 // for each pool in out, its object
	type reactor struct {
		pool    uint64
		clients int64
	}
	var reactors []reactor
	sidekiq := sampler.Pool{Kind: sampler.PoolSidekiq, Max: sampler.UnknownCount, Queued: sampler.UnknownCount, Clients: sampler.UnknownCount}
	que := quePool{buffers: make(map[uint64]int64)}
	members := make([]uint64, 0, len(f.pools.members))
	for v := range f.pools.members {
		members = append(members, v)
	}
	slices.Sort(members)
	for _, v := range members {
		var pool sampler.Pool
		var r reactor
		var q queMember
		busy, own := false, true
		role := f.pools.members[v]
		if !f.member(v, func(role poolRole) {
			switch role {
			case rolePuma:
				pool, own = f.pumaPool(v)
			case roleReactor:
				// A Puma process can have two reactors only in Puma 4, which has a second one for its control server.
				// The field @app_pool of a reactor shows to which pool it belongs.
				r = reactor{f.ivar(v, "@app_pool"), f.reactorClients(v)}
			case roleSidekiq:
				busy = f.objects.IsObject(f.ivar(v, "@job"))
			case roleGoodJob, roleSolidPool:
				pool = f.jobPool(v, role)
			case roleQue, roleQueWaiting:
				q = f.queMember(v, role)
			}
		}) {
			continue
		}
		switch {
		case role == roleReactor:
			reactors = append(reactors, r)
		case role == roleSidekiq:
			sidekiq.Threads++
			if busy {
				sidekiq.Busy++
			}
		case role == roleQue || role == roleQueWaiting:
			que.add(q)
		case own && pool.Kind != 0 && len(out) < sampler.MaxPools-2:
			out, owners = append(out, pool), append(owners, v)
		}
	}
	for _, r := range reactors {
		i := slices.Index(owners, r.pool)
		if i < 0 && r.pool == 0 && len(out) == 1 && len(reactors) == 1 {
			i = 0
		}
		if i >= 0 {
			out[i].Clients = r.clients
		}
	}
	if sidekiq.Threads > 0 {
		out = append(out, sidekiq)
	}
	if que.workers > 0 {
		out = append(out, que.pool())
	}
	return out
}

// pumaPool reads a Puma::ThreadPool. own is false if it is the pool of Puma's control server, and not the application's
// own.
func (f *reader) pumaPool(v uint64) (p sampler.Pool, own bool) {
	name := f.text(f.ivar(v, "@name"), maxClass)
	threads, waiting := f.number(v, "@spawned"), f.number(v, "@waiting")
	p = sampler.Pool{Kind: sampler.PoolPuma, Threads: threads, Busy: sampler.UnknownCount, Max: f.number(v, "@max"),
		Queued: f.length(v, "@todo"), Clients: sampler.UnknownCount}
	if threads >= 0 && waiting >= 0 {
		p.Busy = max(threads-waiting, 0)
	}
	return p, name != controlPool
}

// reactorClients returns how many connections a Puma::Reactor watches or is about to watch. From Puma 7 on, the reactor
// stores this number. In Puma 5 and 6 it has a list of the connections, ordered by their timeouts. In Puma 4 it has a
// list of monitors, of which the first one is for the reactor itself.
func (f *reader) reactorClients(v uint64) int64 {
	coming := max(f.length(v, "@input"), 0)
	if n := f.number(v, "@reactor_size"); n >= 0 {
		return n + coming
	}
	if n := f.length(v, "@monitors"); n > 0 {
		return n - 1 + coming
	}
	return max(f.length(v, "@timeouts"), 0) + coming
}

// number reads a small Integer in an instance variable. It returns UnknownCount if the variable holds no such number.
func (f *reader) number(object uint64, name string) int64 {
	v := f.ivar(object, name)
	if v&1 == 0 {
		return sampler.UnknownCount
	}
	return int64(v) >> 1
}

// length reads the number of elements of the Array or Queue in an instance variable. It returns UnknownCount if the
// variable holds neither.
func (f *reader) length(object uint64, name string) int64 {
	v := f.ivar(object, name)
	if !f.objects.IsObject(v) {
		return sampler.UnknownCount
	}
	n, err := f.objects.Length(v)
	if err != nil {
		if err == view.ErrMissing || heap.Displaced(err) {
			f.failed = cmp.Or(f.failed, err)
		}
		return sampler.UnknownCount
	}
	return n
}
