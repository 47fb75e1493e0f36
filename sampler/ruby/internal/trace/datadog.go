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

// Limits of what is followed.
const (
	// maxContexts bounds the contexts of Datadog's tracers that one fiber has: each tracer that was ever configured
	// leaves one.
	maxContexts = 16
	// maxTraces bounds the traces that spans of OpenTelemetry are nested in, on Datadog's tracer.
	maxTraces = 64
)

// contextPrefix begins the fiber-locals in which Datadog's tracers keep contexts; a number follows.
const contextPrefix = "datadog_context_"

// configuredKey returns the fiber-local of the configured tracer. It is empty if there is none, or if this version
// keeps it otherwise.
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

// contextKeys returns the fiber-locals that may hold a context, the latest tracer's first. It always returns at least
// one, so that a context that is added later is noticed.
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

// activeTrace returns the active trace of a fiber's context, or zero. A context from before a fork of this process has
// none.
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
	// Both of the same trace, at once: a span's number never changes, and no walk begins anew at the thread.
	root, errRoot := f.ref(trace, "@root_span")
	active, errActive := f.ref(trace, "@active_span")
	above, errAbove := f.outermost(trace)
	id, errTrace := f.traceID(trace)
	if err := view.Worst(errRoot, errActive, errAbove, errTrace); err != nil {
		return Span{}, err
	}
	found.Trace = id
	if above != trace { // OpenTelemetry's spans on Datadog's tracer: each has a trace of its own
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
		return Span{}, nil // under construction
	}
	return found, nil
}

// traceID returns the id of a trace in its wire format. It is zero if it is not known. The error asks for more memory
// or means that the target is gone.
func (f *Finder) traceID(trace uint64) (id [16]byte, err error) {
	err = f.quietly(func() error { // it is the same during the whole trace
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

// number returns an instance variable that is an identifier of 64 bits, or zero if it is none.
func (f *Finder) number(of uint64, name string) (n uint64, err error) {
	const fixnum = 1
	v, ok, err := f.objects.Ivar(of, name)
	if err != nil || !ok || v == 0 {
		return 0, err
	}
	if v&fixnum == 0 && !f.objects.IsObject(v) {
		return 0, nil // nil
	}
	return f.objects.Uint(v)
}

// serves finds the subject of a trace, by the type and the resource of the trace and of its root span.
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
	// Frameworks say it late, of the trace or of its root: both are watched.
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

// outermost returns the trace of the outermost span of OpenTelemetry that a trace of Datadog's lies within, or the
// trace itself.
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
