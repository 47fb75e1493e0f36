package work

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxMembers bounds the objects that are known: pools, reactors, and the processors of Sidekiq, which may have
// hundreds.
const maxMembers = 1024

// controlPool is the name of the pool of Puma's control server (lib/puma/runner.rb), which serves no requests of the
// application.
const controlPool = "ctl"

// poolRole is what an object of a server has to do with its pool of threads.
type poolRole uint8

const (
	roleNone poolRole = iota
	rolePuma
	roleReactor
	roleSidekiq
)

// poolFiles are the files whose methods have such an object as receiver, and its class. Read-only.
var poolFiles = [...]struct {
	role        poolRole
	file, class string
}{
	{rolePuma, "/puma/thread_pool.rb", "Puma::ThreadPool"},
	{roleReactor, "/puma/reactor.rb", "Puma::Reactor"},
	{roleSidekiq, "/sidekiq/processor.rb", "Sidekiq::Processor"},
}

func poolRoleOf(path string) poolRole {
	for _, f := range poolFiles {
		if strings.HasSuffix(path, f.file) {
			return f.role
		}
	}
	return roleNone
}

// pools knows the objects that pools of threads are made of, by the frames that run their methods.
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

// Pools reads the pools of threads whose code was seen to run. An object that has gone, or is of another class, is
// forgotten. What cannot be read is left out, or unknown.
func (f *Finder) Pools() []sampler.Pool {
	var out []sampler.Pool
	var owners []uint64 // the objects of out
	type reactor struct {
		pool    uint64
		clients int64
	}
	var reactors []reactor
	sidekiq := sampler.Pool{Kind: sampler.PoolSidekiq, Max: sampler.UnknownCount, Queued: sampler.UnknownCount, Clients: sampler.UnknownCount}
	members := make([]uint64, 0, len(f.pools.members))
	for v := range f.pools.members {
		members = append(members, v)
	}
	slices.Sort(members)
	for _, v := range members {
		role := f.pools.members[v]
		class, err := "", error(nil)
		var pool sampler.Pool
		var r reactor
		busy, own := false, true
		err = f.objects.Read(func() error {
			f.failed = nil
			if class = f.classOf(v); f.failed == nil && class == poolFiles[role-1].class {
				switch role {
				case rolePuma:
					pool, own = f.pumaPool(v)
				case roleReactor:
					// Only Puma 4 has one for its control server too, and its reactors name their pools.
					r = reactor{f.ivar(v, "@app_pool"), f.reactorClients(v)}
				case roleSidekiq:
					busy = f.objects.IsObject(f.ivar(v, "@job"))
				}
			}
			return f.failed
		})
		if err == nil && class != poolFiles[role-1].class || heap.Displaced(err) {
			delete(f.pools.members, v)
			continue
		}
		switch {
		case err != nil:
		case role == rolePuma && own && len(out) < sampler.MaxPools-1:
			out, owners = append(out, pool), append(owners, v)
		case role == roleReactor:
			reactors = append(reactors, r)
		case role == roleSidekiq:
			sidekiq.Threads++
			if busy {
				sidekiq.Busy++
			}
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
	return out
}

// pumaPool reads a Puma::ThreadPool. own is false for the pool of Puma's control server.
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

// reactorClients reads how many connections a Puma::Reactor watches or is about to watch. Puma 7 and later count them.
// Puma 5 and 6 list them by their timeouts. Puma 4 has a list of monitors, the first of which is its own.
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

// number reads a small number in an instance variable. It is UnknownCount if there is none.
func (f *reader) number(object uint64, name string) int64 {
	v := f.ivar(object, name)
	if v&1 == 0 {
		return sampler.UnknownCount
	}
	return int64(v) >> 1
}

// length reads the number of elements of an Array or a Queue in an instance variable. It is UnknownCount if there is
// none.
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
