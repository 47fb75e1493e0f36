package sampler

import (
	"cmp"
	"strings"
)

// Limits of Queues.
const (
	// MaxListeners bounds the listening sockets of a process that are read: a server has a few.
	MaxListeners = 64
	// MaxPools bounds the pools of threads of a process that are read.
	MaxPools = 64
	// MaxLists bounds the Queues of a process that are read, MaxUsers the threads that use one.
	MaxLists, MaxUsers = 64, 16
	// MaxLeases bounds the pools of Active Record that are read, MaxOwners the connections of a pool.
	MaxLeases, MaxOwners = 16, 256
)

// UnknownCount stands for a number in Queues that is not known.
const UnknownCount = -1

// Queues are the requests that wait before a process works on them: connections that it has not accepted, and requests
// that none of its threads has taken. They are read about once a second.
type Queues struct {
	// AtNS is when they were read, CLOCK_MONOTONIC in ns.
	AtNS int64
	// Accept is the kernel's part.
	Accept Accept
	// Pools are the pools of threads that serve requests or jobs. It is empty if there is none known.
	Pools []Pool
	// Lists are the Queues (Thread::Queue) that constants and variables have, and Arrays that threads use in the same
	// way, in the order of Compare.
	Lists []List
	// Leases are the pools of Active Record's connections in which threads were seen.
	Leases []Lease
}

// Lease is a pool of Active Record's connections, and which threads have them.
type Lease struct {
	// Queue is the ConditionVariable in which threads wait for a connection.
	Queue uint64
	// Size is how many connections there may be.
	Size int64
	// Owners are the threads that have a connection. A connection whose thread has ended has no owner.
	Owners []ThreadID
}

// List is a Queue of the program, or an Array that the program uses like a Queue.
type List struct {
	// Object is the address of the Queue or Array. Array is true if it is an Array.
	Object uint64
	Array  bool
	// Name is the constant or variable that has it, as "Worker::JOBS" or "@jobs". It is empty if not known.
	Name   string
	Length int64
	// Putters are threads that run code which puts into the Queue. Takers are threads that run code which takes from
	// it. Both are in the order of their IDs, and at most MaxUsers. They are searched only if the Queue grows. A
	// thread whose code does both is in neither.
	Putters, Takers []ThreadID
}

// Compare orders lists by their addresses.
func (l List) Compare(o List) int { return cmp.Compare(l.Object, o.Object) }

// Accept holds the kernel's queues of connections that a process has not accepted.
type Accept struct {
	// Known reports whether the connections in Listeners are all that wait for the process. If not, Why says why.
	Known bool
	Why   string
	// Listeners are the listening sockets of the process. A forked worker has its parent's sockets, so the workers of
	// a server have the same queue. Cut is true if there are more than MaxListeners.
	Listeners []Listener
	Cut       bool
	// Overflows counts the connections that the kernel has refused because a queue was full. Drops counts connections
	// refused for any reason. They are ListenOverflows and ListenDrops of /proc/PID/net/netstat. Both count all
	// sockets of the network namespace since it was created. They are UnknownCount if they cannot be read.
	Overflows, Drops int64
}

// Listener is the accept queue of a listening socket.
type Listener struct {
	// Inode identifies the socket.
	Inode uint64
	// Address is address:port, or the path of a unix socket.
	Address string
	// Queued is how many connections wait, and Limit how many may. Limit is UnknownCount if the kernel does not say.
	Queued, Limit int64
}

// passengerSockets is the folder of the sockets of Passenger's processes for an application, in its instance directory
// (src/agent/Core/CoreMain.cpp of Passenger 5 and later).
const passengerSockets = "/apps.s/"

// HeldByPassenger sets Known to false for a process of an application that Passenger has started. Passenger's core
// accepts all connections, and passes a request on when such a process has a free thread. So no request waits at the
// process's own sockets, although many may wait for it.
func (a *Accept) HeldByPassenger() {
	for i := range a.Listeners {
		if strings.Contains(a.Listeners[i].Address, passengerSockets) {
			a.Known, a.Why = false, "Passenger keeps waiting requests in its core process: see passenger-status"
		}
	}
}

// Compare orders listeners by their addresses.
func (l Listener) Compare(o Listener) int {
	return cmp.Or(cmp.Compare(l.Address, o.Address), cmp.Compare(l.Inode, o.Inode))
}

// PoolKind is the library whose threads a Pool has.
type PoolKind uint8

// The kinds of pools.
const (
	PoolPuma PoolKind = iota + 1
	PoolSidekiq
	PoolGoodJob
	PoolSolidQueue
	PoolQue
)

// String is the word used in JSON: puma, sidekiq, good_job, solid_queue, que.
func (k PoolKind) String() string {
	return wordOf(k, "unknown", "unknown", "puma", "sidekiq", "good_job", "solid_queue", "que")
}

// Pool is a pool of threads that serve requests or jobs, as the target's memory has it. Each number is UnknownCount if
// it is not known.
type Pool struct {
	Kind PoolKind
	// Threads is how many threads the pool has. Busy is how many of them have a request or job, and Max how many there
	// may be. A busy thread of Sidekiq or GoodJob has one job reserved.
	Threads, Busy, Max int64
	// Queued is how many requests wait for a thread within the process (Puma's @todo). For Solid Queue and Que it is
	// how many jobs are reserved and have no thread yet.
	Queued int64
	// Clients is how many connections Puma's reactor watches. Their clients have not sent a whole request.
	Clients int64
}

// Backlog returns how many connections, requests and jobs wait for a thread, in the kernel's queues and in the
// process. known is false if the kernel's queues are not known. It is also false if the process has neither listening
// sockets nor pools with a queue.
func (q *Queues) Backlog() (n int64, known bool) {
	if q == nil || !q.Accept.Known {
		return 0, false
	}
	for i := range q.Accept.Listeners {
		n, known = n+q.Accept.Listeners[i].Queued, true
	}
	for i := range q.Pools {
		if q.Pools[i].Queued != UnknownCount {
			n, known = n+q.Pools[i].Queued, true
		}
	}
	return n, known
}
