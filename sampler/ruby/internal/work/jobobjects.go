package work

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// readPerforming reads a job of Active Job. It is the receiver of the method perform_now, whatever code has called this
// method.
func (f *describer) readPerforming(_ *code.Scope, r *reading) bool {
	v := f.word(r.slot)
	if !f.is(v, heap.TypeObject) {
		return false // the receiver is a class, whose perform_now makes a job first
	}
	id := f.ivar(v, "@job_id")
	if id == 0 {
		return false
	}
	r.key.hash = v
	return f.jobObject(r, v, id, f.argumentsOf(v, "@arguments"))
}

// argumentsOf returns an instance variable that holds a job's arguments. It returns zero if the user does not want to
// see values.
func (f *describer) argumentsOf(v uint64, name string) uint64 {
	if !f.values {
		return 0
	}
	return f.ivar(v, name)
}

// jobObject reads a job from an object of the job's class. id is the job's number or another identifier, and args are
// its arguments. Either is zero if it is not known.
func (f *describer) jobObject(r *reading, v, id, args uint64) bool {
	class := ""
	r.identity[identityText] = f.identityOf(id)
	f.quietly(func() {
		class = f.classOf(v)
		if args != 0 {
			r.values = f.inspect(args, 0)
		}
	})
	if f.failed != nil || !className(class) {
		return false
	}
	r.setJob(class, v, id, args)
	return true
}

// setJob sets r to a job. endpoint is the class or method that runs. The values in identity distinguish the job from
// other jobs.
func (r *reading) setJob(endpoint string, identity ...uint64) {
	r.kind, r.endpoint = sampler.WorkJob, endpoint
	copy(r.identity[:], identity)
}

// readDelayed reads a job of Delayed Job that has loaded its payload. The payload is an object of the job's class,
// Active Job's wrapper, or a method to be called (handle_asynchronously, delay).
func (f *describer) readDelayed(v uint64, r *reading) bool {
	payload := f.ivar(v, "@payload_object")
	if !f.objects.IsObject(payload) {
		return false
	}
	class := ""
	f.quietly(func() { class = f.classOf(payload) })
	if f.failed != nil {
		return false
	}
	id := f.attribute(v, "id")
	switch {
	case f.failed != nil:
		return false
	case strings.HasSuffix(class, "::"+wrapperClass):
		var values [jobKeys]uint64
		return f.lookUp(f.ivar(payload, "@job_data"), activeJobNames[:], values[:]) && f.job(r, &values, true, true)
	case strings.HasPrefix(class, "Delayed::Performable"):
		return f.delayedMethod(payload, id, r)
	}
	return f.jobObject(r, payload, id, 0)
}

// attribute returns the value that an attribute of an Active Record object had when it was read from the database. It
// returns zero if the attribute is not known.
func (f *describer) attribute(record uint64, name string) uint64 {
	set := f.ivar(record, "@attributes")
	if !f.is(set, heap.TypeObject) {
		return 0
	}
	var values [1]uint64
	f.lookUp(f.ivar(set, "@values"), []string{name}, values[:])
	return values[0]
}

// delayedMethod reads a Delayed::PerformableMethod. The job's name is made of the object's class and the method that is
// called.
func (f *describer) delayedMethod(payload, id uint64, r *reading) bool {
	object := f.ivar(payload, "@object")
	if !f.objects.IsObject(object) {
		return false
	}
	method, args := f.ivar(payload, "@method_name"), f.argumentsOf(payload, "@args")
	if f.failed != nil || method == 0 {
		return false
	}
	name, class, mark := "", "", "."
	f.quietly(func() {
		name = f.text(method, maxClass)
		path, isClass, err := f.objects.PathOfClass(object)
		if class = path; !f.fails(err) && !isClass {
			class, mark = f.classOf(object), "#"
		}
		if args != 0 {
			r.values = f.inspect(args, 0)
		}
	})
	if f.failed != nil || !className(class) || !codeName(strings.TrimRight(name, "?!="), "_") {
		return false
	}
	r.setJob(class+mark+name, payload, id, args)
	return true
}
