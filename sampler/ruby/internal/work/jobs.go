package work

import (
	"cmp"
	"strings"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxJobQueuedS is how long a job may have waited in its queue, in s.
const maxJobQueuedS = 30 * 24 * 3600

const (
	// maxClass bounds a class's name, and maxTime a time of day, in bytes.
	maxClass, maxTime = 200, 40
	// wrapperClass is how the classes end that have a queue run Active Job's.
	wrapperClass = "JobWrapper"
)

// Keys of a job's Hash.
const (
	jobClass = iota
	jobID
	jobWrapped
	jobEnqueued
	jobArgs
	jobKeys
)

// Names of the keys. Read-only.
var (
	sidekiqNames   = [jobKeys]string{"class", "jid", "wrapped", "enqueued_at", "args"}
	activeJobNames = [jobKeys]string{"job_class", "job_id", "", "enqueued_at", "arguments"}
	resqueNames    = [jobKeys]string{"class", "", "", "", "args"}
	queNames       = [jobKeys]string{"job_class", "job_id", "", "run_at", "args"}
	que1Names      = [jobKeys]string{"job_class", "id", "", "run_at", "args"}
)

// readSidekiq reads Sidekiq's Hash of a job.
func (f *describer) readSidekiq(scope *code.Scope, r *reading) (found bool, err error) {
	return f.readJobHash(r, &sidekiqNames, true)
}

// readActiveJob reads what Active Job gives to its queue.
func (f *describer) readActiveJob(scope *code.Scope, r *reading) (found bool, err error) {
	return f.readJobHash(r, &activeJobNames, true)
}

// readJobHash reads a job's Hash, which r's variable holds.
func (f *describer) readJobHash(r *reading, names *[jobKeys]string, needsID bool) (found bool, err error) {
	var values [jobKeys]uint64
	if err := f.lookUp(r, names[:], values[:]); err != nil {
		return false, err
	}
	return f.job(r, &values, needsID, false)
}

// job takes a job from the values of its Hash. unwrapped: that was the argument of a wrapper's, and is asked for no further one, since
// a Hash can hold itself.
func (f *describer) job(r *reading, values *[jobKeys]uint64, needsID, unwrapped bool) (found bool, err error) {
	if values[jobClass] == 0 || needsID && values[jobID] == 0 {
		return false, nil
	}
	var failed error
	var class, wrapped string
	r.identity[identityText] = f.identityOf(values[jobID], &failed)
	f.quietly(func() {
		class = f.text(values[jobClass], maxClass, &failed)
		wrapped = f.text(values[jobWrapped], maxClass, &failed)
		if at := f.timeOfDay(values[jobEnqueued], &failed); at > 0 {
			r.queuedNS = queuedWithin(at, f.wall(), maxJobQueuedS)
		}
		if f.values {
			r.values = f.inspect(values[jobArgs], 0, &failed)
		}
	})
	if failed != nil {
		return false, failed
	}
	if className(wrapped) {
		class = wrapped // what Active Job's wrapper runs
	} else if !unwrapped && strings.HasSuffix(class, wrapperClass) {
		if found, err := f.wrapped(values[jobArgs], values); err != nil {
			return false, err
		} else if found {
			return f.job(r, values, true, true)
		}
	}
	if !className(class) {
		return false, nil
	}
	r.kind, r.endpoint = sampler.WorkJob, class
	r.identity[0], r.identity[1], r.identity[2] = values[jobClass], values[jobID], values[jobArgs]
	return true, nil
}

// className reports whether s can be the name of a class: it comes out of a queue, where anybody may have written it.
func className(s string) bool {
	if len(s) > maxCode {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(s, "::"), "::") {
		if !codeName(part, "_") || part[0] < 'A' || part[0] > 'Z' || !plainName(part) {
			return false
		}
	}
	return true
}

// timeOfDay returns a time of day in seconds, which Active Job writes down as text; 0: it is none.
func (f *describer) timeOfDay(v uint64, failed *error) float64 {
	if text := f.text(v, maxTime, failed); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0
		}
		return float64(at.UnixNano()) / 1e9
	}
	return f.seconds(v, failed)
}

// seconds returns a time of day in seconds; 0: it is none.
func (f *describer) seconds(v uint64, failed *error) float64 {
	if v == 0 || !f.objects.IsObject(v) && v&3 == 0 {
		return 0
	}
	at, err := f.objects.Float(v)
	if err != nil && err != view.ErrMissing {
		if n, errInt := f.objects.Int(v); errInt == nil {
			at, err = float64(n), nil
		}
	}
	if err == view.ErrMissing {
		*failed = cmp.Or(*failed, err)
	}
	if err != nil {
		return 0
	}
	return at
}

// readJob reads a variable named job: Resque's and Delayed Job's objects, Que's Hash.
func (f *describer) readJob(scope *code.Scope, r *reading) (found bool, err error) {
	v, err := f.word(r.slot)
	if err != nil {
		return false, err
	}
	r.key.hash = v
	if is, err := f.is(v, heap.TypeHash); err != nil {
		return false, err
	} else if is {
		if found, err := f.readJobHash(r, &queNames, true); err != nil || found {
			return found, err
		}
		return f.readJobHash(r, &que1Names, true)
	}
	if is, err := f.is(v, heap.TypeObject); err != nil || !is {
		return false, err
	}
	// Resque::Job keeps the Hash in @payload.
	payload, ok, err := f.objects.Ivar(v, "@payload")
	if err != nil {
		return false, err
	}
	if !ok {
		return f.readDelayed(v, r)
	}
	if is, err := f.is(payload, heap.TypeHash); err != nil || !is {
		return false, err
	}
	var values [jobKeys]uint64
	if err := f.objects.Lookup(payload, resqueNames[:], values[:]); err != nil {
		return false, err
	}
	if values[jobArgs] == 0 {
		return false, nil
	}
	return f.job(r, &values, false, false)
}

// wrapped reads the Hash of Active Job that its wrapper is given as its only argument; found is false where args are others.
func (f *describer) wrapped(args uint64, values *[jobKeys]uint64) (found bool, err error) {
	_, n, first, err := f.list(args)
	if err != nil || n != 1 {
		return false, err
	}
	if is, err := f.is(first, heap.TypeHash); err != nil || !is {
		return false, err
	}
	var inner [jobKeys]uint64
	if err := f.objects.Lookup(first, activeJobNames[:], inner[:]); err != nil || inner[jobClass] == 0 || inner[jobID] == 0 {
		return false, err
	}
	*values = inner
	return true, nil
}
