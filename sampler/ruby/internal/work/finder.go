package work

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit the search through a stack.
const (
	// maxOuter limits how many frames are searched for a request or job, counted from the outermost frame.
	maxOuter = 96
	// outerStep is the number of frames that are searched together. It is enough for most servers, because the frame
	// with their request is among the outermost.
	outerStep = 24
	// maxCandidates limits how many variables with a matching name are read in one search.
	maxCandidates = 8
	// maxInner limits how many frames are searched for a statement, counted from the innermost frame. innerStep is how
	// many of these frames are searched together.
	maxInner, innerStep = 40, 8
	// maxSites limits the number of entries in statements.sites.
	maxSites = 1 << 15
	// readTries limits how often a value is read if it changes during the reading. The first reading is the first try.
	readTries = 2
	// settledNS limits the time from the first reading of a value to its confirmation, in ns. In a longer time, Ruby
	// can free the memory of a frame and its objects, and reuse it for others with the same content.
	settledNS = int64(3e6)
)

// errChanged means that memory changed while it was read.
var errChanged = errors.New("it changed while it was read")

// Finder finds the requests and jobs for which the threads of a process work. It is not safe for concurrent use.
type Finder struct {
	describer
	allowance
	pools      pools
	lists      lists
	tasks      map[taskKey]*task
	lastNumber sampler.WorkNumber
	// place is where the Rack environments of the last requests were found. copies has, for each execution context, the
	// key of the last request whose environment was copied. routed is true if any framework has written a route into an
	// environment.
	place  Place
	votes  int // the votes for place (notePlace)
	routed bool
	copies map[attach.Address]taskKey
}

// reader reads the variables of a frame, and objects, while the target runs. It then checks that they were unchanged
// during the reading.
type reader struct {
	// clock returns CLOCK_MONOTONIC in ns.
	clock   func() int64
	mem     attach.Memory
	code    *code.Decoder
	objects *heap.Objects
	dict    *sampler.Dictionary
	// values is true if the user wants to see paths, arguments and literals as they are.
	values bool

	scopes []code.Scope
	notes  []heap.Witness
	// pairs caches the last search in a Hash. It is valid only during one try of the method settled.
	pairs   lookedUp
	tries   uint64
	scratch heap.Watch
	frame   liveFrame
	calls   int
	// failed is the first error in the current try (the method settled makes the tries). After an error, the code
	// continues with zero values, and its results are not used.
	failed error
}

// statements finds the statements and commands that threads send to servers.
type statements struct {
	reader
	sites map[*code.Locals]*site
}

// describer finds names for requests and jobs in the objects that represent them.
type describer struct {
	statements
	// wall returns the time of day, in s.
	wall  func() float64
	paths paths
}

// allowance limits the time for new searches. If bounded is true, credit is the time that is left, in ns. now returns
// CLOCK_MONOTONIC in ns.
type allowance struct {
	now     func() int64
	bounded bool
	credit  int64
}

// NewFinder returns a Finder that reads mem with the code and objects that d has decoded. If values is true, it also
// reads paths, arguments and literals. object is the class Object, or zero. now returns CLOCK_MONOTONIC in ns.
func NewFinder(mem attach.Memory, d *code.Decoder, dict *sampler.Dictionary, values bool, object uint64, now func() int64) *Finder {
	f := &Finder{allowance: allowance{now: now}, tasks: make(map[taskKey]*task), copies: make(map[attach.Address]taskKey)}
	f.reader = reader{clock: now, mem: mem, code: d, objects: d.Objects, dict: dict, values: values}
	f.lists.objects, f.lists.named.object = d.Objects, object
	f.sites = make(map[*code.Locals]*site)
	f.wall = func() float64 { return float64(time.Now().UnixNano()) / 1e9 }
	return f
}

// Look finds the work of a thread whose stack was just read, and stores it in s. If Plan was called, the call that read
// the stack has also read the memory that Plan added. calls is the number of further system calls. Work that cannot be
// read, or that changes during the reading, is left empty. An error means that the target cannot be read.
func (f *Finder) Look(s *State, fr *Frames) (calls int, err error) {
	f.calls = -f.objects.View.Calls
	if g := f.dict.Generation(); g != s.generation {
		s.generation, s.asked, s.handled.id = g, f.dict.InternText(s.askedText), f.dict.InternText(s.handled.text)
	}
	taskErr := f.lookForTask(s, fr)
	if taskErr == nil {
		s.ec, s.lookedNS = fr.EC, fr.SinceNS
		if s.task != nil {
			f.lookForCopy(s, fr)
		}
	}
	askErr := f.onCredit(func() error { return f.lookForStatement(s, fr) })
	handledErr := f.lookForException(s, fr)
	_ = f.onCredit(func() error { f.noteLists(s, fr); return nil })
	if taskErr == nil && handledErr == nil {
		f.notFound(s, fr.NowNS)
	}
	s.serving = sampler.Serving{Statement: s.asked, Exception: s.handled.id}
	s.idle, s.unread = taskErr == nil && s.task == nil, taskErr != nil
	if taskErr == nil && s.task != nil {
		s.serving.Work = s.task.id
	}
	if askErr != nil {
		s.serving.Statement = 0
	}
	for _, err := range []error{taskErr, askErr, handledErr} {
		if errors.Is(err, attach.ErrGone) {
			return f.calls + f.objects.View.Calls, err
		}
	}
	return f.calls + f.objects.View.Calls, nil
}

// LookOutward is for a running fiber that has no work of its own (s.Idle()). It searches the frames of a fiber that has
// resumed the running fiber. For example, if code of a request calls an Enumerator, the Enumerator's fiber works for
// the request, too. outer is the State of the outer fiber. The results are the same as Look's.
func (f *Finder) LookOutward(s, outer *State, fr *Frames) (calls int, err error) {
	f.calls = -f.objects.View.Calls
	err = f.lookForTask(outer, fr)
	if s.unread = err != nil; err == nil {
		outer.ec, outer.lookedNS = fr.EC, fr.SinceNS
	}
	if err == nil && outer.task != nil {
		s.serving.Work = outer.task.id
		// The exception and the statement in s were read before the task, so they can belong to the thread's last
		// request. Check that they are still current.
		if s.serving.Exception != 0 && !f.lives(&s.handled.frame, &s.handled.from) {
			s.serving.Exception = 0
		}
		if s.serving.Statement != 0 && !f.lives(&s.askedFrame, &s.askedFrom) {
			s.serving.Statement = 0
		}
	}
	if !errors.Is(err, attach.ErrGone) {
		err = nil
	}
	return f.calls + f.objects.View.Calls, err
}

// lookForTask sets s.task to the thread's current request or job. After an error s.task is unchanged.
func (f *Finder) lookForTask(s *State, fr *Frames) error {
	s.anew = false
	same := s.sameFrames(fr)
	if same && f.unchanged(&s.from) {
		f.seen(s.task, fr.NowNS)
		return nil
	}
	if !same && 1+f.bare(s, fr) >= min(fr.count(), maxOuter) { // no frame can have work
		f.drop(s, fr)
		return nil
	}
	// If the time for new searches is used up, this search is put off, and lookedNS stays unchanged. If a later search
	// finds work, this work counts as begun after lookedNS.
	return f.onCredit(func() error { return f.lookAnew(s, fr, same) })
}

// lookAnew searches for the thread's request or job (task), after the known task could not be confirmed. same is true
// if the frame of the known task still runs.
func (f *Finder) lookAnew(s *State, fr *Frames, same bool) error {
	var r reading
	j, found := 0, false
	var err error
	if same {
		// The frame is the same. Its variable may still hold the same request, about which more is known now. Or it
		// holds the next request of a loop.
		j = len(s.outer) / fr.Size
		r.seen = &s.from
		found, err = f.readCandidate(fr, j, &r)
	}
	if err == nil && !found {
		j, err = f.findTask(s, fr, &r)
	}
	switch {
	case err != nil:
		return err
	case j == 0:
		f.drop(s, fr)
	default:
		f.take(s, &r, fr, j)
	}
	return nil
}

// Forget ends the task of a State and clears the State, because its fiber has ended.
func (f *Finder) Forget(s *State) {
	if s.task != nil {
		f.end(s.task)
	}
	*s = State{}
}

// drop clears the task, because the search found none.
func (f *Finder) drop(s *State, fr *Frames) {
	if s.task != nil && s.ec == fr.EC {
		f.end(s.task)
	}
	s.task = nil
	s.from.Clear()
}

// take sets s.task to the request or job (task) in r, which was read from the j-th frame, counted from the outermost.
func (f *Finder) take(s *State, r *reading, fr *Frames, j int) {
	before := fr.BornNS
	if s.ec == fr.EC {
		before = max(before, s.lookedNS)
	}
	t := f.taskOf(r, max(cmp.Or(fr.ByNS, fr.NowNS), before), before)
	if s.task != nil && s.task != t && s.ec == fr.EC {
		f.end(s.task)
	}
	s.task, s.anew = t, true
	f.notePlace(r, fr, j)
	f.routed = f.routed || r.kind == sampler.WorkRequest && !t.guessed
	s.keepFrames(fr, j)
	s.from.Set(f.notes)
}

// unchanged reports whether the memory that w watches has the same content as when w was set.
func (f *reader) unchanged(w *heap.Watch) bool {
	same, calls := w.Stands(f.objects, f.mem)
	f.calls += calls
	return same
}

// findTask searches for a frame whose variable holds the thread's work, from the outermost frame inward. j is the
// number of the frame, counted from the outermost. It is zero, the number of the dummy frame, if no frame is found.
func (f *Finder) findTask(s *State, fr *Frames, r *reading) (j int, err error) {
	n, candidates := min(fr.count(), maxOuter), 0
	for from := 1 + f.bare(s, fr); from < n; from += outerStep {
		to := min(from+outerStep, n)
		last := len(fr.Raw) - from*fr.Size
		part := fr.Raw[last-(to-from)*fr.Size : last]
		scopes, err := f.scopesOf(part)
		if err != nil {
			return 0, err
		}
		bare := true
		for i := len(scopes) - 1; i >= 0; i-- {
			site := f.site(&scopes[i])
			f.pools.note(scopes[i].Self, site.pool)
			if site.task == nil {
				continue
			}
			bare = false
			if candidates++; candidates > maxCandidates {
				return 0, nil
			}
			j := to - 1 - scopes[i].Frame
			frame, at := fr.outer(j)
			f.frame = frameOf(fr, at, frame)
			found, err := f.readTask(&scopes[i], site, r)
			if err != nil {
				return 0, err
			}
			if found {
				return j, nil
			}
		}
		if bare && candidates == 0 {
			s.bareEC, s.bare = fr.EC, append(s.bare[:0], fr.Raw[len(fr.Raw)-to*fr.Size:]...)
		}
	}
	return 0, nil
}

// bare returns how many of the outermost frames a search can skip, without the dummy frame. These frames are the same
// as in the last search, and none of their variables can hold work.
func (f *Finder) bare(s *State, fr *Frames) int {
	if s.bareEC != fr.EC {
		return 0
	}
	a, b, same := s.bare, fr.Raw, 0
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[len(a)-fr.Size:], b[len(b)-fr.Size:]) {
		a, b = a[:len(a)-fr.Size], b[:len(b)-fr.Size]
		same++
	}
	return max(same-1, 0)
}

func (f *Finder) readCandidate(fr *Frames, j int, r *reading) (found bool, err error) {
	frame, at := fr.outer(j)
	f.frame = frameOf(fr, at, frame)
	scopes, err := f.scopesOf(frame)
	if err != nil || len(scopes) != 1 {
		return false, err
	}
	return f.readTask(&scopes[0], f.site(&scopes[0]), r)
}

// readTask reads, one by one, the variables of a frame that can hold its thread's work. It stops at the first variable
// that holds work. f.notes then lists the memory that was read.
func (f *Finder) readTask(scope *code.Scope, site *site, r *reading) (found bool, err error) {
	for _, c := range site.task {
		*r = reading{key: taskKey{ec: f.frame.ec}, slot: f.frame.at + code.FrameSelf, seen: r.seen}
		if c.local != receiver {
			r.slot = scope.Locals.At(scope.EP, c.local)
		}
		found, err := f.settled(func() bool {
			found := c.read(&f.describer, scope, r)
			if !errors.Is(f.failed, view.ErrMissing) {
				r.seen = nil // if this value is not confirmed, the next try reads it anew
			}
			return found
		})
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// settled calls the function read, and then checks two conditions: the memory that was read is unchanged, and the frame
// f.frame has not returned. f.notes lists this memory. settled returns an error if the memory keeps changing or cannot
// be read.
func (f *reader) settled(read func() (found bool)) (found bool, err error) {
	for range readTries {
		f.tries++
		f.notes = f.notes[:0]
		began := f.clock()
		err := f.objects.Read(func() error {
			f.failed, f.notes = nil, f.notes[:0]
			f.objects.Record(&f.notes)
			defer f.objects.Record(nil)
			found = read()
			return f.failed
		})
		switch {
		case errors.Is(err, attach.ErrGone), errors.Is(err, view.ErrStopped):
			return false, err
		case !heap.Recorded(f.notes): // so much memory was read that it cannot be confirmed
			return false, errChanged
		}
		if err != nil {
			continue
		}
		f.scratch.Set(f.notes)
		same, calls, err := f.frame.confirm(&f.scratch, found, f.objects, f.mem)
		f.calls += calls
		if err != nil {
			return false, err
		}
		if same && f.clock()-began <= settledNS {
			return found, nil
		}
	}
	return false, errChanged
}

// fails notes an error of reading, and reports whether there is one.
func (f *reader) fails(err error) bool {
	f.failed = cmp.Or(f.failed, err)
	return err != nil
}

// lacks reports whether err is view.ErrMissing, which means that memory must be fetched first. In this case it sets
// f.failed to err. It ignores other errors.
func (f *reader) lacks(err error) bool {
	if err != view.ErrMissing {
		return false
	}
	f.failed = err
	return true
}

func (f *reader) word(at attach.Address) uint64 {
	b, err := f.objects.View.Bytes(at, 8)
	if f.fails(err) {
		return 0
	}
	f.objects.Note(at, b, 0)
	return view.U64(b)
}

// ivar reads an instance variable of an object. It returns zero if the object lacks the variable, or if its value is
// false.
func (f *reader) ivar(object uint64, name string) uint64 {
	if object == 0 {
		return 0
	}
	v, _, err := f.objects.Ivar(object, name)
	f.fails(err)
	return v
}

// is (a method) reports whether v is a heap object of the type typ. If a compaction is moving the object, it sets
// f.failed. Otherwise the reader could continue with a wrong frame or object.
func (f *reader) is(v, typ uint64) bool {
	if !f.objects.IsObject(v) {
		return false
	}
	flags, err := f.objects.Flags(v)
	if f.fails(err) {
		return false
	}
	switch t := flags & heap.TypeMask; t {
	case heap.TypeNone, heap.TypeMoved:
		f.fails(errChanged)
		return false
	default:
		return t == typ
	}
}

// lookUp sets values to the values that a Hash has for names, as heap.Objects.Lookup does. It returns false if v is
// not a Hash, or if reading fails.
func (f *reader) lookUp(v uint64, names []string, values []uint64) bool {
	return f.is(v, heap.TypeHash) && !f.fails(f.objects.Lookup(v, names, values))
}

func (f *reader) classOf(v uint64) string {
	class, err := f.objects.ClassOf(v)
	f.fails(err)
	return class
}

// quietly calls the function read without noting the memory that read uses. It is for texts of objects, which do not
// change while the words that lead to the objects stay the same.
func (f *reader) quietly(read func()) {
	f.objects.Record(nil)
	read()
	f.objects.Record(&f.notes)
}

// scopesOf returns the scopes of some frames. They are valid until the next call.
func (f *reader) scopesOf(frames []byte) ([]code.Scope, error) {
	scopes, err := f.code.Scopes(frames, f.scopes[:0])
	f.scopes = scopes[:0]
	return scopes, err
}

// eachScope calls visit with the scopes of the n innermost frames, from the innermost outward, until visit returns done
// = true.
func (f *reader) eachScope(fr *Frames, n int, visit func(*code.Scope) (done bool, err error)) error {
	for from := 0; from < n; from += innerStep {
		scopes, err := f.scopesOf(fr.Raw[from*fr.Size : min(from+innerStep, n)*fr.Size])
		if err != nil {
			return err
		}
		for i := range scopes {
			scopes[i].Frame += from
			if done, err := visit(&scopes[i]); done || err != nil {
				return err
			}
		}
	}
	return nil
}
