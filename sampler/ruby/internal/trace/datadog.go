package trace

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit how many objects the Finder follows.
const (
	// maxContexts limits how many contexts of Datadog's tracers are read for one fiber. Each tracer that was ever
	// configured leaves a context in the fiber.
	maxContexts = 16
	// maxTraces limits how deep traces are nested. If OpenTelemetry's API is used with Datadog's tracer, each span has
	// a Datadog trace of its own.
	maxTraces = 64
)

// contextPrefix begins the names of the fiber-locals in which Datadog's tracers keep their contexts. A number follows
// it.
const contextPrefix = "datadog_context_"

// configuredKey returns the name of the fiber-local in which the configured tracer keeps its context. It is empty if no
// tracer is configured, or if this version of Datadog's library stores the name in another place.
func (f *Finder) configuredKey(datadog uint64) (string, error) {
	v, err := f.chain(datadog, "@components", "@tracer", "@provider", "@context")
	if err != nil || v == 0 {
		return "", err
	}
	key, err := f.text(v, "@key")
	if !strings.HasPrefix(key, contextPrefix) {
		key = ""
	}
	return key, err
}

func (f *Finder) datadog(ec attach.Address) (Span, error) {
	keys := []string{f.tracers.key}
	if f.tracers.key == "" {
		var err error
		if keys, err = f.contextKeys(ec); err != nil {
			return Span{}, err
		}
	}
	for _, key := range keys {
		trace, err := f.activeTrace(ec, key)
		if err != nil {
			return Span{}, err
		}
		if trace != 0 {
			return f.spanOf(trace)
		}
	}
	return Span{}, nil
}

// contextKeys returns the names of the fiber-locals that may hold a context. The latest tracer's name comes first. The
// last name is always contextPrefix alone, so that ddtop also notices a context that is added later.
func (f *Finder) contextKeys(ec attach.Address) (keys []string, err error) {
	err = f.quietly(func() error {
		return f.objects.FiberLocals(ec, func(name string, _ uint64) (bool, error) {
			if strings.HasPrefix(name, contextPrefix) && !slices.Contains(keys, name) {
				keys = append(keys, name)
			}
			return len(keys) < maxContexts, nil
		})
	})
	number := func(key string) int {
		n, err := strconv.Atoi(key[len(contextPrefix):])
		if err != nil {
			return -1
		}
		return n
	}
	slices.SortFunc(keys, func(a, b string) int { return number(b) - number(a) })
	return append(keys, contextPrefix), err
}

// activeTrace returns the active trace of a fiber's context, or zero. It ignores a context that was made before this
// process was forked.
func (f *Finder) activeTrace(ec attach.Address, key string) (uint64, error) {
	context, ok, err := f.objects.FiberLocal(ec, key)
	if err != nil || !ok || !f.objects.IsObject(context) {
		return 0, err
	}
	trace, err := f.ref(context, "@active_trace")
	if err != nil || trace == 0 {
		return 0, err
	}
	pid, ok, err := f.objects.Ivar(context, "@fork_pid")
	if err != nil {
		return 0, err
	}
	if ok {
		if n, err := f.objects.Int(pid); err == nil && n != f.pid {
			return 0, nil
		}
	}
	return trace, nil
}

func (f *Finder) spanOf(trace uint64) (found Span, err error) {
	// Both spans are read at the same time, so they belong to the same trace. Everything else is read through this
	// trace or these spans, and not through the thread again. The id of a span never changes.
	root, errRoot := f.ref(trace, "@root_span")
	active, errActive := f.ref(trace, "@active_span")
	above, errAbove := f.outermost(trace)
	id, errTrace := f.traceID(trace)
	if err := view.Worst(errRoot, errActive, errAbove, errTrace); err != nil {
		return Span{}, err
	}
	found.Trace = id
	if above != trace { // OpenTelemetry's spans on Datadog's tracer have a trace each
		if root, err = f.ref(above, "@root_span"); err != nil {
			return Span{}, err
		}
	}
	var errID, errRootID, errServes error
	if active != 0 {
		found.ID, errID = f.number(active, "@id")
	} else if above != trace {
		found.ID, errID = f.number(trace, "@parent_span_id")
	}
	if root != 0 {
		found.Root, errRootID = f.number(root, "@id")
		errServes = f.serves(&found, above, root)
	}
	if err := view.Worst(errID, errRootID, errServes); err != nil {
		return Span{}, err
	}
	if found.ID == 0 || found.Root == 0 {
		return Span{}, nil // the tracer is still creating the span
	}
	return found, nil
}

// traceID returns the id of a trace in its wire format, or zero if it is unknown. The error is view.ErrMissing if
// memory must be fetched first. Any other error means that the target cannot be read.
func (f *Finder) traceID(trace uint64) (id [16]byte, err error) {
	err = f.quietly(func() error { // the id does not change during a trace, so a later check need not compare it
		v, ok, err := f.objects.Ivar(trace, "@id")
		if err != nil || !ok {
			return err
		}
		high, low, err := f.objects.Uint128(v)
		if err == nil {
			binary.BigEndian.PutUint64(id[:], high)
			binary.BigEndian.PutUint64(id[8:], low)
		}
		return err
	})
	if err != nil && !errors.Is(err, view.ErrMissing) {
		err = targetError(err)
	}
	return id, err
}

// number returns the 64-bit identifier in an instance variable. It returns zero if the object lacks the variable, or if
// the variable is nil.
func (f *Finder) number(of uint64, name string) (n uint64, err error) {
	const fixnum = 1
	v, ok, err := f.objects.Ivar(of, name)
	if err != nil || !ok || v == 0 {
		return 0, err
	}
	if v&fixnum == 0 && !f.objects.IsObject(v) {
		return 0, nil // the variable is nil
	}
	return f.objects.Uint(v)
}

// serves stores in found the request or job to which a trace belongs. The type of the root span shows whether the trace
// belongs to a request or job. The resource of the trace, or of its root span, is the name of the request or job.
func (f *Finder) serves(found *Span, trace, root uint64) error {
	typ, err := f.text(root, "@type")
	if err != nil {
		return err
	}
	kind := sampler.WorkNone
	switch typ {
	case "web", "proxy":
		kind = sampler.WorkRequest
	case "worker":
		kind = sampler.WorkJob
	default:
		return nil
	}
	// Frameworks set the resource late in a request, on the trace or on its root span. So note the memory of both, so
	// that a later change is noticed.
	ofTrace, errTrace := f.text(trace, "@resource")
	ofRoot, errRoot := f.text(root, "@resource")
	if err := view.Worst(errTrace, errRoot); err != nil {
		return err
	}
	if found.Endpoint = ofTrace; ofTrace == "" {
		found.Endpoint = ofRoot
	}
	if found.Endpoint != "" {
		found.Kind = kind
	}
	return nil
}

// outermost goes outward from a Datadog trace to the Datadog trace of the outermost OpenTelemetry span around it. If
// there is no such span, it returns the given trace.
func (f *Finder) outermost(trace uint64) (uint64, error) {
	for range maxTraces {
		values, err := f.ref(trace, "@otel_values")
		if err != nil || values == 0 {
			return trace, err
		}
		span, err := f.currentSpan(values)
		if err != nil || span == 0 {
			return trace, err
		}
		above, err := f.ref(span, "@datadog_trace")
		if err != nil || above == 0 || above == trace {
			return trace, err
		}
		trace = above
	}
	return trace, nil
}
