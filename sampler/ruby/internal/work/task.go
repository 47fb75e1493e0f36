package work

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

const (
	// maxTasks limits how many requests and jobs are remembered, including the tasks of suspended fibers.
	maxTasks = 4096
	// identityWords is how many values distinguish one task (a request or job) from another. The values are in a
	// request's environment or in a job's Hash.
	identityWords = 7
	// identityText is the index of the value that is a checksum of a text. The address of the text's object is not
	// enough, because an object of a later task can get the same address.
	identityText = identityWords - 1
)

// taskKey identifies a task (a request or job) by its execution context and the address of its Hash. A later task can
// have the same key. The address of the variable is not in the key, because it changes while a task runs: Ruby moves a
// method's variables to the heap if the program keeps a block of the method.
type taskKey struct {
	ec   attach.Address
	hash uint64
}

// leastIdentity distinguishes requests whose environments have none of the usual identifying values. For all other
// requests it is zero. path is the object PATH_INFO. script is a checksum of SCRIPT_NAME, and whole is a checksum of
// both texts together. All three are from the first reading of the request. They are needed together: a program that
// mounts an application moves the path's beginning from PATH_INFO to SCRIPT_NAME, and back.
type leastIdentity struct{ path, script, whole uint64 }

// alike reports whether a and b are of the same request. This is so if PATH_INFO is the same object. It is also so if
// the whole path is the same, and only its beginning has moved to or from SCRIPT_NAME.
func (a *leastIdentity) alike(b *leastIdentity) bool {
	return a.path == b.path || a.whole == b.whole && a.script != b.script
}

// task is a request or a job in progress.
type task struct {
	key taskKey
	// identity are words that stay the same while the request or job (task) runs. They are needed because the next task
	// can use the same Hash and the same variable.
	identity [identityWords]uint64
	least    leastIdentity
	work     sampler.Work
	// proof identifies copies of the task's environment (lookForCopy). copied is the route that was found in a copy,
	// and looks is the number of searches for a copy. guessed is true if the task's route is only the pattern of its
	// path.
	proof   requestProof
	guessed bool
	copied  string
	looks   uint
	// guess is a name for the task that is made of its method and path.
	guess string
	// id is the ID of work in the Dictionary. It is valid in the Dictionary's generation with the number generation.
	id         sampler.WorkID
	generation sampler.Generation
	// unread is a copy of the request's environment, if ddtop knows the request only from this copy. It is nil for all
	// other tasks.
	unread *Copied
	// seenNS is the last time at which the task was seen to run.
	seenNS int64
}

// reading is the result of reading a task's Hash.
type reading struct {
	// slot is the address of the variable that holds the Hash. seen is memory that was read just before, or nil. If
	// seen contains the variable, it is not read again now, but only confirmed later together with everything else.
	// copied is the address of the Hash if ddtop knows it without a variable. Otherwise it is 0.
	slot     attach.Address
	seen     *heap.Watch
	copied   uint64
	kind     sampler.WorkKind
	key      taskKey
	identity [identityWords]uint64
	least    leastIdentity
	endpoint string
	// path is the pattern of the path from which endpoint was made. It is empty if a framework has named the route.
	path string
	// guess is a name for a request that is made of its method and path. pattern is its Work.Path. failed is true while
	// Rails renders the error page for an exception of the request.
	guess, pattern string
	failed         bool
	proof          requestProof
	queuedNS       int64
	values         string
}

// taskOf returns the request or job (task) to which a reading belongs. It makes a new task if it knows none. A new task
// began after beforeNS, because the thread did not have it at that time. beforeNS is zero if no such time is known.
func (f *Finder) taskOf(r *reading, nowNS, beforeNS int64) *task {
	t := f.tasks[r.key]
	unread := t != nil && t.unread != nil && t.seenNS >= beforeNS && t.unread.isOf(r)
	if unread {
		t.unread, t.least, t.work.QueuedNS = nil, r.least, r.queuedNS
	}
	if t == nil || !unread && !t.same(r) {
		t = f.newTask(r, nowNS, beforeNS)
	}
	t.nameOf(r)
	if t.work.Endpoint != r.endpoint || t.work.Values != r.values || t.work.Path != r.pattern {
		t.work.Endpoint, t.work.Values, t.work.Path, t.generation = r.endpoint, r.values, r.pattern, 0
	}
	t.identity = r.identity // while the program fills the Hash, each reading can find more identity words
	if r.least.whole == 0 {
		t.least.whole = 0
	}
	f.seen(t, nowNS)
	return t
}

// newTask makes a task that began between beforeNS and nowNS.
func (f *Finder) newTask(r *reading, nowNS, beforeNS int64) *task {
	if len(f.tasks) >= maxTasks {
		f.forget(nowNS)
	}
	f.lastNumber++
	t := &task{key: r.key, identity: r.identity, least: r.least, work: sampler.Work{Number: f.lastNumber, Kind: r.kind,
		SinceNS: nowNS, BeforeNS: beforeNS, QueuedNS: r.queuedNS}}
	f.tasks[r.key] = t
	if r.path != "" {
		f.paths.learn(r.path)
	}
	return t
}

// nameOf completes the request's or job's name in r from what t already knows. It stores in t.guessed whether the name
// is only a guess from the request's path.
func (t *task) nameOf(r *reading) {
	known := t.work.Endpoint != ""
	named := known && !t.guessed
	t.proof, t.guessed, t.guess = r.proof, r.path != "", r.guess
	switch {
	case named && (r.failed || t.guessed): // neither an error page's route nor a guess replaces the request's route
		r.endpoint, t.guessed, r.pattern = t.work.Endpoint, false, t.work.Path
		return
	// The route in r may be the error page's, so the request keeps its guessed name. With its path, it can still show
	// the route of other requests.
	case known && r.failed && !t.guessed:
		r.endpoint, t.guessed, r.pattern = t.work.Endpoint, true, t.work.Path
		return
	case r.failed && !t.guessed:
		return
	case t.guessed && t.copied != "":
		r.endpoint = t.copied
	}
	r.pattern = patternOf(r.guess, r.endpoint)
}

func (t *task) same(r *reading) bool {
	switch {
	case t.work.Kind != r.kind:
		return false
	case t.least.whole != 0 && r.least.whole != 0:
		return t.least.alike(&r.least)
	case t.least.whole != 0: // at the first reading, the environment had no identifying values yet, but now it does
		return t.least.path == r.least.path
	}
	return alike(&t.identity, &r.identity)
}

// alike reports whether two identities can belong to the same task. At least one word must be the same in both, and no
// word may differ. A word that is zero in one of the identities is ignored.
func alike(a, b *[identityWords]uint64) bool {
	same := false
	for i := range a {
		if a[i] == 0 || b[i] == 0 {
			continue
		}
		if a[i] != b[i] {
			return false
		}
		same = true
	}
	return same
}

// seen notes that a task runs at nowNS. If the Dictionary may have dropped the task's work, seen interns it again.
func (f *Finder) seen(t *task, nowNS int64) {
	t.seenNS = nowNS
	if g := f.dict.Generation(); t.generation != g {
		t.generation, t.id = g, f.dict.InternWork(t.work)
	}
}

// end forgets a task that its thread has finished or left. Do not call it for a task whose fiber is only suspended.
func (f *Finder) end(t *task) {
	if f.tasks[t.key] == t {
		delete(f.tasks, t.key)
	}
}

// tasksKeptNS is how long a task is kept after ddtop last saw it, in ns, if there is no room for a new task.
const tasksKeptNS = 60_000_000_000

// forget makes room for new tasks. It drops all tasks that ddtop has not seen for tasksKeptNS. If this is not enough,
// it drops all tasks.
func (f *Finder) forget(nowNS int64) {
	for key, t := range f.tasks {
		if nowNS-t.seenNS > tasksKeptNS {
			delete(f.tasks, key)
		}
	}
	if len(f.tasks) >= maxTasks {
		clear(f.tasks)
	}
}
