package work

import (
	"strings"
	"time"

	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxJobQueuedS limits how long a job can have been in its queue, in s. A longer time must be an error, so ddtop
// ignores it.
const maxJobQueuedS = 30 * 24 * 3600

const (
	// maxClass limits the length of a class's name, and maxTime the length of a time as text, in bytes.
	maxClass, maxTime = 200, 40
	// wrapperClass is the end of the class names that queues use for their wrappers. Such a wrapper runs a job of
	// Active Job.
	wrapperClass = "JobWrapper"
)

// These constants number the keys of a job's Hash.
const (
	jobClass = iota
	jobID
	jobWrapped
	jobEnqueued
	jobArgs
	jobKeys
)

// These variables have the names of the keys, for each queue. Read-only.
var (
	sidekiqNames   = [jobKeys]string{"class", "jid", "wrapped", "enqueued_at", "args"}
	activeJobNames = [jobKeys]string{"job_class", "job_id", "", "enqueued_at", "arguments"}
	resqueNames    = [jobKeys]string{"class", "", "", "", "args"}
	queNames       = [jobKeys]string{"job_class", "job_id", "", "run_at", "args"}
	que1Names      = [jobKeys]string{"job_class", "id", "", "run_at", "args"}
)

func (f *describer) readSidekiq(_ *code.Scope, r *reading) bool {
	return f.readJobHash(r, &sidekiqNames)
}

// readActiveJob reads a job from the Hash that Active Job has given to its queue.
func (f *describer) readActiveJob(_ *code.Scope, r *reading) bool {
	return f.readJobHash(r, &activeJobNames)
}

// readJobHash reads a job from the Hash in r's variable.
func (f *describer) readJobHash(r *reading, names *[jobKeys]string) bool {
	var values [jobKeys]uint64
	return f.lookUpVariable(r, names[:], values[:]) && f.job(r, &values, true, false)
}

// job reads a job from the values of its Hash. unwrapped is true if this Hash was the argument of a wrapper's job. In
// this case job does not search the arguments for another Hash. Otherwise the search might never end, because a Hash
// can contain itself.
func (f *describer) job(r *reading, values *[jobKeys]uint64, needsID, unwrapped bool) bool {
	if values[jobClass] == 0 || needsID && values[jobID] == 0 {
		return false
	}
	var class, wrapped string
	r.identity[identityText] = f.identityOf(values[jobID])
	f.quietly(func() {
		class = f.text(values[jobClass], maxClass)
		wrapped = f.text(values[jobWrapped], maxClass)
		if at := f.timeOfDay(values[jobEnqueued]); at > 0 {
			r.queuedNS = queuedWithin(at, f.wall(), maxJobQueuedS)
		}
		if f.values {
			r.values = f.inspect(values[jobArgs], 0)
		}
	})
	if f.failed != nil {
		return false
	}
	if className(wrapped) {
		class = wrapped // the class of the job that Active Job's wrapper runs
	} else if !unwrapped && strings.HasSuffix(class, wrapperClass) && f.wrapped(values[jobArgs], values) {
		return f.job(r, values, true, true)
	}
	if f.failed != nil || !className(class) {
		return false
	}
	r.setJob(class, values[jobClass], values[jobID], values[jobArgs])
	return true
}

// className reports whether s can be the name of a class. The check is needed because s comes from a queue, into which
// anyone may have written.
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

// timeOfDay returns a time as seconds since 1970. v is a text in the form that Active Job writes, or a number. For
// anything else, the result is zero.
func (f *describer) timeOfDay(v uint64) float64 {
	if text := f.text(v, maxTime); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0
		}
		return float64(at.UnixNano()) / 1e9
	}
	return f.seconds(v)
}

// seconds returns a time of day that is stored as a number of seconds. It returns zero for anything else.
func (f *describer) seconds(v uint64) float64 {
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
		f.fails(err)
	}
	if err != nil {
		return 0
	}
	return at
}

// readJob reads a job from a variable named job. The variable can hold an object of Resque or Delayed Job, or a Hash of
// Que.
func (f *describer) readJob(_ *code.Scope, r *reading) bool {
	v := f.word(r.slot)
	r.key.hash = v
	if f.is(v, heap.TypeHash) {
		return f.readJobHash(r, &queNames) || f.failed == nil && f.readJobHash(r, &que1Names)
	}
	if !f.is(v, heap.TypeObject) {
		return false
	}
	payload := f.ivar(v, "@payload") // Resque::Job keeps the Hash there
	switch {
	case f.failed != nil:
		return false
	case payload == 0:
		return f.readDelayed(v, r)
	}
	var values [jobKeys]uint64
	return f.lookUp(payload, resqueNames[:], values[:]) && values[jobArgs] != 0 && f.job(r, &values, false, false)
}

// wrapped reads Active Job's Hash from the arguments of a wrapper's job. It returns false unless this Hash is the only
// argument.
func (f *describer) wrapped(args uint64, values *[jobKeys]uint64) bool {
	_, n, first := f.list(args)
	var inner [jobKeys]uint64
	if n != 1 || !f.lookUp(first, activeJobNames[:], inner[:]) || inner[jobClass] == 0 || inner[jobID] == 0 {
		return false
	}
	*values = inner
	return true
}
