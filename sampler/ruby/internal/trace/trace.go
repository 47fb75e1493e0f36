// Package trace finds the active span of a thread. It reads the objects that Datadog's or OpenTelemetry's tracer keeps
// for each fiber (docs/internals/trace.md). It also reads the record that a thread publishes for other processes
// (docs/internals/context.md). If it is not certain about the span, it returns none.
package trace

import (
	"errors"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// presentEveryNS is the interval, in ns, at which ddtop checks which tracers a process has and which one is
	// configured.
	presentEveryNS = 10e9
	// readTries limits how often a span is read if memory changes during each reading.
	readTries = 2
)

// Span is the active span of a thread, according to the tracer. The zero value means that there is no span, or that
// it is unknown.
type Span struct {
	// ID is the active span. Root is the local root, the outermost span of the trace in this process.
	ID, Root uint64
	// Trace is the id of the trace in its wire format, the most significant byte first. It is zero if it is unknown.
	Trace [16]byte
	// Endpoint is the name of the request or job to which the local root belongs, such as "OrdersController#index".
	// Kind says whether it is a request or a job. Endpoint is empty if the root belongs to neither.
	Endpoint string
	Kind     sampler.WorkKind
}

// Finder finds the active spans of a process's threads. It is not safe for concurrent use.
type Finder struct {
	mem     attach.Memory
	objects *heap.Objects
	// object is the class Object. pid is the process's id as the process itself sees it, in its PID namespace.
	object uint64
	pid    int64

	// tracers are the process's tracers at the time askedNS. asked is true after the first search for tracers.
	tracers tracers
	askedNS int64
	asked   bool

	// notes is the memory from which the last result was read. first is the memory that was read in the first of two
	// readings (see settled).
	notes, first []heap.Witness
	scratch      heap.Watch
	calls        int
}

// tracers says which tracing libraries a process has.
type tracers struct {
	datadog, otel bool
	// key is the name of the fiber-local in which Datadog's configured tracer keeps its context. It is empty if
	// unknown.
	key string
}

func (t tracers) any() bool { return t.datadog || t.otel }

// State is what ddtop knows about a thread's span. It is kept from tick to tick. The zero value means that nothing is
// known.
type State struct {
	ec      attach.Address
	tracers tracers
	from    heap.Watch
	span    Span

	published publishedState
}

// Span returns the result of the last search. A span from the tracer's objects has priority, because these objects
// belong to the fiber. The span that the thread publishes is used only for data that the first span lacks.
func (s *State) Span() Span {
	found, published := s.span, s.published.span
	if found.ID == 0 {
		return published
	}
	if found.ID == published.ID {
		if found.Root == 0 {
			found.Root = published.Root
		}
		if found.Trace == ([16]byte{}) {
			found.Trace = published.Trace
		}
	}
	return found
}

// Plan adds to the ranges of a system call the memory from which the last result was read.
func (s *State) Plan(ranges []attach.Range) []attach.Range {
	ranges = s.from.Plan(ranges)
	if s.published.planned = s.published.of != nil; s.published.planned {
		ranges = s.published.planRanges(ranges)
	}
	return ranges
}

// Unplan discards the ranges that Plan has added. Call it if this tick's system call did not read these ranges, or
// could not read all of them.
func (s *State) Unplan() {
	s.from.Unplan()
	s.published.planned = false
}

// Lost clears the spans. Call it if the thread's stack is unknown. ddtop then does not know which part of the trace the
// thread executes.
func (s *State) Lost() { s.span, s.published.span = Span{}, Span{} }

// NewFinder returns a Finder that reads objects through o. mem is the same target's memory. object is the class Object.
// pid is the process's id as the process itself sees it, in its PID namespace.
func NewFinder(mem attach.Memory, o *heap.Objects, object uint64, pid int) *Finder {
	return &Finder{mem: mem, objects: o, object: object, pid: int64(pid)}
}

// Refresh checks which tracers the process has, once in presentEveryNS. calls is the number of system calls. An error
// means that the target cannot be read.
func (f *Finder) Refresh(nowNS int64) (calls int, err error) {
	if f.asked && nowNS-f.askedNS < presentEveryNS {
		return 0, nil
	}
	f.asked, f.askedNS = true, nowNS
	before := f.objects.View.Calls
	var found tracers
	err = f.objects.Read(func() (err error) {
		found, err = f.findTracers()
		return err
	})
	if err == nil {
		f.tracers = found
	}
	return f.objects.View.Calls - before, targetError(err)
}

func (f *Finder) findTracers() (found tracers, err error) {
	datadog, has, errDatadog := f.objects.ConstantValue(f.object, "Datadog")
	_, otel, errOtel := f.objects.ConstantValue(f.object, "OpenTelemetry")
	if err := view.Worst(errDatadog, errOtel); err != nil {
		return tracers{}, err
	}
	found = tracers{datadog: has, otel: otel}
	if has {
		found.key, err = f.configuredKey(datadog)
	}
	return found, err
}

// Look stores in s the active span of a thread. ec is the execution context of the fiber that runs on the thread. If
// s.Plan was called, the tick's system call has already read memory for Look. calls is the number of further system
// calls. If memory cannot be read, or changes during the reading, the span is the zero Span. An error means that the
// target cannot be read.
func (f *Finder) Look(s *State, ec attach.Address) (calls int, err error) {
	if !f.tracers.any() {
		s.span = Span{}
		s.from.Clear()
		return 0, nil
	}
	f.calls = -f.objects.View.Calls
	if s.ec == ec && s.tracers == f.tracers && f.unchanged(&s.from) {
		return f.calls + f.objects.View.Calls, nil
	}
	s.ec, s.tracers = ec, f.tracers
	s.from.Clear()
	s.span, err = f.settled(ec)
	if err == nil {
		s.from.Set(f.notes)
	} else {
		s.span = Span{}
	}
	return f.calls + f.objects.View.Calls, targetError(err)
}

// unchanged reports whether the memory that led to the last result is unchanged.
func (f *Finder) unchanged(w *heap.Watch) bool {
	same, calls := w.Stands(f.objects, f.mem)
	f.calls += calls
	return same
}

// errChanged means that memory changed during the reading, or that more memory was read than can be checked for
// changes.
var errChanged = errors.New("it changed while it was read")

// settled reads the active span twice. f.notes lists the words from which it was read. If these words are equal in both
// readings, they were probably unchanged in between, and the second reading is right. But a word, such as the length of
// an Array, could have changed and changed back between the two readings. So settled reads the words a third time.
func (f *Finder) settled(ec attach.Address) (Span, error) {
	read := func(settle func(func() error) error) (found Span, err error) {
		err = settle(func() (err error) {
			f.notes = f.notes[:0]
			f.objects.Record(&f.notes)
			defer f.objects.Record(nil)
			found, err = f.active(ec)
			return err
		})
		return found, err
	}
	for range readTries {
		first, err := read(f.objects.Read)
		f.first = append(f.first[:0], f.notes...)
		var again Span
		if err == nil {
			f.objects.View.Anew()
			again, err = read(f.objects.View.Settle)
		}
		switch {
		case targetError(err) != nil:
			return Span{}, err
		case err != nil:
			continue
		case !heap.Recorded(f.notes):
			return Span{}, errChanged
		case first == again && slices.Equal(f.first, f.notes):
			f.scratch.Set(f.notes)
			same, calls, err := f.scratch.Confirm(f.objects, f.mem, nil, nil)
			f.calls += calls
			if same || err != nil {
				return again, err
			}
		}
	}
	return Span{}, errChanged
}

func (f *Finder) active(ec attach.Address) (found Span, err error) {
	if f.tracers.datadog {
		found, err = f.datadog(ec)
		if err != nil || found != (Span{}) {
			return found, err
		}
	}
	if f.tracers.otel {
		return f.openTelemetry(ec)
	}
	return Span{}, nil
}

// targetError returns err if it means that the target cannot be read at all. Otherwise it returns nil.
func targetError(err error) error {
	if errors.Is(err, attach.ErrGone) || errors.Is(err, view.ErrStopped) {
		return err
	}
	return nil
}

// quietly calls the function read without noting the memory that read uses. It is for memory that changes only together
// with the noted words that lead to it.
func (f *Finder) quietly(read func() error) error {
	f.objects.Record(nil)
	defer f.objects.Record(&f.notes)
	return read()
}

// ref returns the object to which an instance variable refers. It returns zero if the variable is missing or holds no
// object.
func (f *Finder) ref(of uint64, name string) (uint64, error) {
	v, ok, err := f.objects.Ivar(of, name)
	if err != nil || !ok || !f.objects.IsObject(v) {
		return 0, err
	}
	return v, nil
}

// chain follows instance variables from object to object, in the order of names. It returns the last object, or zero if
// a variable is missing on the way.
func (f *Finder) chain(of uint64, names ...string) (v uint64, err error) {
	for v = of; len(names) > 0 && v != 0 && err == nil; names = names[1:] {
		v, err = f.ref(v, names[0])
	}
	return v, err
}

// text returns an instance variable that is a String or a Symbol, or "" if it is neither.
func (f *Finder) text(of uint64, name string) (string, error) {
	v, ok, err := f.objects.Ivar(of, name)
	if err != nil || !ok {
		return "", err
	}
	return f.name(v)
}

// name returns the text of a String or Symbol, or "" if the value is neither.
func (f *Finder) name(v uint64) (string, error) {
	const symbolMask, symbolTag = 0xff, 0x0c
	if v&symbolMask == symbolTag {
		return f.objects.Name(v)
	}
	typ, err := f.typeOf(v)
	if err != nil || typ != heap.TypeString && typ != heap.TypeSymbol {
		return "", err
	}
	return f.objects.Name(v)
}

// typeOf returns the type of a value, or TypeNone if it is no heap object. It returns an error if a compaction is
// moving the object, because the type is not known then.
func (f *Finder) typeOf(v uint64) (uint64, error) {
	if !f.objects.IsObject(v) {
		return heap.TypeNone, nil
	}
	flags, err := f.objects.Flags(v)
	if err != nil {
		return heap.TypeNone, err
	}
	typ := flags & heap.TypeMask
	if typ == heap.TypeNone || typ >= heap.TypeImemo {
		return typ, heap.WrongType(attach.Address(v), "object", flags)
	}
	return typ, nil
}
