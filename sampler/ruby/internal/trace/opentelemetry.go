package trace

import (
	"encoding/binary"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxNested limits how many contexts of OpenTelemetry are followed outward to find the local root. If there are
	// more, the span has no known root.
	maxNested = 64
	// maxEntries limits the number of entries of one context.
	maxEntries = 64
)

// These are the names under which OpenTelemetry keeps a fiber's contexts. Before version 1.5 of its API, contextsLocal
// is the name of a fiber-local. From 1.5 on, contextsIvar is the name of an instance variable of the Fiber.
const (
	contextsLocal = "__opentelemetry_context_storage__"
	contextsIvar  = "@opentelemetry_context"
)

// otelSpan is a span of OpenTelemetry.
type otelSpan struct {
	object uint64
	id     uint64
	trace  [16]byte
	// remote is true if the span belongs to another process, whose trace this process continues.
	remote bool
}

func (f *Finder) openTelemetry(ec attach.Address) (Span, error) {
	contexts, err := f.contexts(ec)
	if err != nil || contexts == 0 {
		return Span{}, err
	}
	at, n, err := f.objects.Array(contexts)
	if err != nil || n == 0 {
		return Span{}, err
	}
	// Note the whole list of contexts for the later check, not only its end. During the reading, the thread can leave
	// some contexts and enter others, while the last context in the list stays the same. The content of a context never
	// changes, so do not note it.
	m := min(n, maxNested+1)
	at += attach.Address(n-m) * 8
	stack, err := f.objects.View.Bytes(at, int(m)*8)
	if err != nil {
		return Span{}, err
	}
	f.objects.Note(at, stack, 0)
	var found Span
	err = f.quietly(func() (err error) {
		found, err = f.spanOnTop(stack)
		return err
	})
	return found, err
}

// contexts returns the Array of a fiber's contexts, or zero if there is none.
func (f *Finder) contexts(ec attach.Address) (uint64, error) {
	v, ok, err := f.objects.FiberLocal(ec, contextsLocal)
	if err != nil || ok {
		return v, err
	}
	fiber, err := f.objects.Fiber(ec)
	if err != nil || fiber == 0 || !f.objects.IsObject(fiber) {
		return 0, err
	}
	return f.ref(fiber, contextsIvar)
}

// spanOnTop returns the span of the last context in stack, together with its local root. The local root is the
// outermost span of the same trace in this process.
func (f *Finder) spanOnTop(stack []byte) (Span, error) {
	spans := make([]otelSpan, len(stack)/8)
	var missing error
	for i := range spans {
		var err error
		spans[i], err = f.spanIn(view.U64(stack[len(stack)-8*(i+1):]))
		if err == view.ErrMissing {
			missing = err
		} else if err != nil {
			return Span{}, err
		}
	}
	if missing != nil {
		return Span{}, missing
	}
	first := spans[0]
	if first.id == 0 {
		return Span{}, nil
	}
	found, root := Span{ID: first.id, Trace: first.trace}, 0
	for i, s := range spans {
		if i > 0 && (s.id == 0 || s.trace != first.trace) {
			break
		}
		if !s.remote {
			root = i
		}
		if i == maxNested {
			return found, nil
		}
	}
	found.Root = spans[root].id
	kind, err := f.text(spans[root].object, "@kind")
	if err != nil || kind != "server" {
		return found, err
	}
	found.Endpoint, err = f.text(spans[root].object, "@name")
	if found.Endpoint != "" {
		found.Kind = sampler.WorkRequest
	}
	return found, err
}

// spanIn returns the span of a context. It returns the zero otelSpan if the context has no span.
func (f *Finder) spanIn(context uint64) (s otelSpan, err error) {
	entries, err := f.ref(context, "@entries")
	if err != nil || entries == 0 {
		return s, err
	}
	span, err := f.currentSpan(entries)
	if err != nil || span == 0 {
		return s, err
	}
	of, err := f.ref(span, "@context")
	if err != nil || of == 0 {
		return s, err
	}
	var id [8]byte
	remote, _, errRemote := f.objects.Ivar(of, "@remote")
	if err := view.Worst(errRemote, f.bytes(of, "@span_id", id[:]), f.bytes(of, "@trace_id", s.trace[:])); err != nil {
		return otelSpan{}, err
	}
	const yes = 20 // Ruby's true
	s.object, s.id, s.remote = span, binary.BigEndian.Uint64(id[:]), remote == yes
	return s, nil
}

// bytes copies a String in an instance variable to into. If the variable is no String with exactly this length, bytes
// fills into with zeros.
func (f *Finder) bytes(of uint64, name string, into []byte) error {
	clear(into)
	v, err := f.ref(of, name)
	if err != nil || v == 0 {
		return err
	}
	b, cut, err := f.objects.Bytes(v, len(into))
	if err == nil && !cut && len(b) == len(into) {
		copy(into, b)
	}
	return err
}

// currentSpan returns a context's entry whose key has the name current-span, or zero if the context has no such entry.
func (f *Finder) currentSpan(entries uint64) (span uint64, err error) {
	typ, err := f.typeOf(entries)
	if err != nil || typ != heap.TypeHash {
		return 0, err
	}
	err = f.objects.EachPair(entries, maxEntries, func(key, value uint64) (bool, error) {
		typ, err := f.typeOf(key)
		if err != nil || typ != heap.TypeObject {
			return true, err
		}
		name, err := f.text(key, "@name")
		if err == nil && name == "current-span" && f.objects.IsObject(value) {
			span = value
		}
		return span == 0, err
	})
	return span, err
}
