// Package trace finds the active span of a thread: of Datadog's or OpenTelemetry's tracer, from the objects that they
// keep for each fiber (docs/internals/trace.md), or what a thread publishes for readers outside
// (docs/internals/context.md). It returns nothing if that cannot be told.
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
	// presentEveryNS is the interval of checks for tracers and the configured one, in ns.
	presentEveryNS = 2e9
	// readTries bounds how often a value is read that changes during the reading.
	readTries = 2
)

// Span is the active span of a thread by its tracer. The zero value means that there is none, or that it is not
// known.
type Span struct {
	// ID is the active span, Root the local root of its trace, which is the part of the trace in this process.
	ID, Root uint64
	// Trace is the id of the trace in its wire format, the upper byte first. It is zero if it is not known.
	Trace [16]byte
	// Endpoint is the name of the work of the local root, such as "OrdersController#index", and Kind its kind.
	// Endpoint is empty if it is neither a request nor a job.
	Endpoint string
	Kind     sampler.WorkKind
}

// Finder finds the active spans of a process's threads. Not for concurrent use.
type Finder struct {
	mem     attach.Memory
	objects *heap.Objects
	// object is the class Object; pid the process's own, as itself sees it.
	object uint64
	pid    int64

	// tracers are the process's tracers, found at askedNS. asked is true if they were searched.
	tracers tracers
	askedNS int64
	asked   bool

	// notes is the memory that was read. first is the memory of the first reading.
	notes, first []heap.Witness
	scratch      heap.Watch
	calls        int
}

// tracers are the addresses of what a process has for tracing.
type tracers struct {
	datadog, otel bool
	// key is the fiber-local with the context of Datadog's configured tracer. It is empty if not known.
	key string
}

func (t tracers) any() bool { return t.datadog || t.otel }

// State is what is known of a thread from tick to tick. The zero value knows nothing.
type State struct {
	ec      attach.Address
	tracers tracers
	from    heap.Watch
	span    Span

	published publishedState
}

// Span is the result of the last search. The tracer's objects come first, because they belong to the fiber. What
// the thread publishes fills in the rest.
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

// Plan adds the memory that the last result was read from to the ranges of a call.
func (s *State) Plan(ranges []attach.Range) []attach.Range {
	ranges = s.from.Plan(ranges)
	if s.published.planned = s.published.of != nil; s.published.planned {
		ranges = s.published.lay(ranges)
	}
	return ranges
}

// Unplan says that what Plan has added is not what this tick reads: the call failed, or a part of it, or it was another
// one.
func (s *State) Unplan() {
	s.from.Unplan()
	s.published.planned = false
}

// Lost clears the spans, because the thread's stack is not known, and with it the thread's place in its trace.
func (s *State) Lost() { s.span, s.published.span = Span{}, Span{} }

// NewFinder returns a Finder that reads mem, through o. object is the class Object, and pid what the process's own pid
// is for itself.
func NewFinder(mem attach.Memory, o *heap.Objects, object uint64, pid int) *Finder {
	return &Finder{mem: mem, objects: o, object: object, pid: int64(pid)}
}

// Refresh asks once in a while which tracers the process has. It returns the number of system calls made; an error is
// the target's.
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

// Look puts into s the active span of a thread that runs the fiber of an execution context. It uses the memory that
// s.Plan has added to the call of the stack, if Plan was called. It returns the number of system calls made. If
// memory cannot be read or changes meanwhile, the span is the zero Span. An error is the target's.
func (f *Finder) Look(s *State, ec attach.Address) (calls int, err error) {
	if !f.tracers.any() {
		s.span = Span{}
		s.from.Clear()
		return 0, nil
	}
	f.calls = -f.objects.View.Calls
	if s.ec == ec && s.tracers == f.tracers && f.stands(&s.from) {
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

// stands reports whether the memory of an answer is unchanged.
func (f *Finder) stands(w *heap.Watch) bool {
	same, calls := w.Stands(f.objects, f.mem)
	f.calls += calls
	return same
}

// errChanged means that memory changed while it was read, or that it is too much to be confirmed.
var errChanged = errors.New("it changed while it was read")

// settled reads the active span, then reads everything again at once. If the words that led to the span are the same,
// they led to it all the time in between. Then the second reading is right. A word, such as the length of an Array,
// could change and change back. A third reading of the words excludes this. f.notes are these words.
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

// targetError returns err if it means that the target cannot be read at all, otherwise nil.
func targetError(err error) error {
	if errors.Is(err, attach.ErrGone) || errors.Is(err, view.ErrStopped) {
		return err
	}
	return nil
}

// quietly reads memory that need not be confirmed, because it does not change while the words that lead to it do not.
func (f *Finder) quietly(read func() error) error {
	f.objects.Record(nil)
	defer f.objects.Record(&f.notes)
	return read()
}

// ref returns an instance variable that refers to an object, or zero if it does not.
func (f *Finder) ref(of uint64, name string) (uint64, error) {
	v, ok, err := f.objects.Ivar(of, name)
	if err != nil || !ok || !f.objects.IsObject(v) {
		return 0, err
	}
	return v, nil
}

// chain follows instance variables from object to object. It returns zero if the chain ends early.
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
