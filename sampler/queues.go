package sampler

import (
	"cmp"
	"strings"
)

// These constants limit the parts of Queues.
const (
	// MaxListeners limits how many listening sockets of a process ddtop reads. A server usually has only a few.
	MaxListeners = 64
	// MaxPools limits how many pools of threads of a process ddtop reads.
	MaxPools = 64
	// MaxLists limits how many Queues of a process ddtop reads. MaxUsers limits how many threads it lists for each
	// Queue.
	MaxLists, MaxUsers = 64, 16
	// MaxLeases limits how many connection pools of Active Record ddtop reads. MaxOwners limits how many connections of
	// each pool it reads.
	MaxLeases, MaxOwners = 16, 256
)

// UnknownCount is the value of a field of Queues whose number is not known.
const UnknownCount = -1

// Queues describe the requests that wait until a process works on them. They wait in connections that the process has
// not accepted, or inside the process until a thread takes them. ddtop reads them about once a second.
type Queues struct {
	// AtNS is when the queues were read, CLOCK_MONOTONIC in ns.
	AtNS int64
	// Accept describes the connections that wait in the kernel.
	Accept Accept
	// Pools are the pools of threads that serve requests or jobs. It is empty if ddtop knows of no pool.
	Pools []Pool
	// Lists are the Queues (Thread::Queue) that ddtop found in constants and variables of the program. Arrays that
	// threads use like a Queue are included. Lists are sorted by Compare.
	Lists []List
	// Leases are the connection pools of Active Record that ddtop found in the frames of threads.
	Leases []Lease
}

// Lease describes a connection pool of Active Record: the database connections, and the threads that have taken a
// connection.
type Lease struct {
	// Queue is the address of the ConditionVariable with which threads wait for a free connection.
	Queue uint64
	// Size is how many connections the pool may have.
	Size int64
	// Owners are the threads that have taken a connection. A thread that has ended without giving its connection back
	// is missing.
	Owners []ThreadID
}

// List is a Queue of the program, or an Array that the program uses like a Queue.
type List struct {
	// Object is the address of the Queue or Array. Array is true if it is an Array.
	Object uint64
	Array  bool
	// Name is the constant or variable that refers to the Queue or Array, such as "Worker::JOBS" or "@jobs". It is
	// empty if it is not known.
	Name   string
	Length int64
	// Putters are threads whose code puts items into the Queue. Takers are threads whose code takes items out of it.
	// Each list has at most MaxUsers threads, in the order of their IDs. ddtop searches for these threads only if the
	// Queue grows. A thread whose code does both is in neither list.
	Putters, Takers []ThreadID
}

// Compare orders lists by their addresses.
func (l List) Compare(o List) int { return cmp.Compare(l.Object, o.Object) }

// Accept describes the connections that wait in the kernel until a process accepts them.
type Accept struct {
	// Known reports whether Listeners has all connections that wait for the process. If Known is false, Why gives the
	// reason.
	Known bool
	Why   string
	// Listeners are the listening sockets of the process. A forked worker inherits its parent's sockets, so all workers
	// of a server share one queue. Cut is true if the process has more than MaxListeners sockets.
	Listeners []Listener
	Cut       bool
	// Overflows counts the connections that the kernel has refused because a queue was full. Drops counts the
	// connections that it has refused for any reason. They are ListenOverflows and ListenDrops of
	// /proc/PID/net/netstat, and count all sockets of the network namespace since it was created. They are UnknownCount
	// if ddtop cannot read them.
	Overflows, Drops int64
}

// Listener is a listening socket with its accept queue. Connections wait in this queue until a process accepts them.
type Listener struct {
	// Inode identifies the socket.
	Inode uint64
	// Address is address:port, or the path of a unix socket.
	Address string
	// Queued is how many connections wait in the accept queue, and Limit how many may wait there. Limit is UnknownCount
	// if the kernel does not report it.
	Queued, Limit int64
}

// passengerSockets is a folder in Passenger's instance directory. It has the sockets of the processes that Passenger
// starts for an application (src/agent/Core/CoreMain.cpp of Passenger 5 and later).
const passengerSockets = "/apps.s/"

// HeldByPassenger sets Known to false if the process belongs to an application that Passenger serves. Passenger's own
// core process accepts all connections. It passes a request on when one of the application's processes has a free
// thread. So many requests can wait in the core while no connection waits at this process's sockets.
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

// PoolKind is the library that made the threads of a Pool, such as Puma or Sidekiq.
type PoolKind uint8

// These constants are the kinds of pools.
const (
	PoolPuma PoolKind = iota + 1
	PoolSidekiq
	PoolGoodJob
	PoolSolidQueue
	PoolQue
)

// String returns the word for the kind in JSON: puma, sidekiq, good_job, solid_queue, que.
func (k PoolKind) String() string {
	return wordOf(k, "unknown", "unknown", "puma", "sidekiq", "good_job", "solid_queue", "que")
}

// Pool is a pool of threads that serve requests or jobs. Its numbers are read from the target's memory. A number is
// UnknownCount if it is not known.
type Pool struct {
	Kind PoolKind
	// Threads is how many threads the pool has now, and Max how many it may have. Busy is how many of these threads
	// work for a request or job. For Sidekiq and GoodJob, a busy thread has reserved exactly one job.
	Threads, Busy, Max int64
	// Queued is how many requests wait within the process for a free thread (Puma's @todo). For Solid Queue and Que it
	// counts jobs that the process has reserved, but that no thread works on yet.
	Queued int64
	// Clients is how many connections wait in Puma's reactor because their clients have not sent a whole request yet.
	Clients int64
}

// Backlog returns how many connections, requests and jobs wait for a thread. It adds up the kernel's queues and the
// process's own queues. known is false if the kernel's queues are not known. It is also false if the process has
// neither listening sockets nor pools with a queue.
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
