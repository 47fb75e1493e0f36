package work

import (
	"cmp"
	"strings"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// readPerforming reads the receiver of perform_now: a job of Active Job, whoever has called it.
func (f *describer) readPerforming(_ *code.Scope, r *reading) (found bool, err error) {
	v, err := f.word(r.slot)
	if err != nil {
		return false, err
	}
	if is, err := f.is(v, heap.TypeObject); err != nil || !is {
		return false, err // the class, on its way to a job
	}
	id, ok, err := f.objects.Ivar(v, "@job_id")
	if err != nil || !ok {
		return false, err
	}
	var args uint64
	if f.values {
		if args, _, err = f.objects.Ivar(v, "@arguments"); err != nil {
			return false, err
		}
	}
	r.key.hash = v
	return f.jobObject(r, v, id, args)
}

// jobObject takes a job from an object of its class: id is its number or the like, and args its arguments; 0: not known.
func (f *describer) jobObject(r *reading, v, id, args uint64) (found bool, err error) {
	var failed error
	class := ""
	r.identity[identityText] = f.identityOf(id, &failed)
	f.quietly(func() {
		var err error
		class, err = f.objects.ClassOf(v)
		failed = cmp.Or(failed, err)
		if f.values && args != 0 {
			r.values = f.inspect(args, 0, &failed)
		}
	})
	if failed != nil {
		return false, failed
	}
	if !className(class) {
		return false, nil
	}
	r.kind, r.endpoint = sampler.WorkJob, class
	r.identity[0], r.identity[1], r.identity[2] = v, id, args
	return true, nil
}

// readDelayed reads a job of Delayed Job, which has loaded what it performs: an object of the job's class, Active Job's wrapper, or a
// method to be called (handle_asynchronously, delay).
func (f *describer) readDelayed(v uint64, r *reading) (found bool, err error) {
	payload, ok, err := f.objects.Ivar(v, "@payload_object")
	if err != nil || !ok || !f.objects.IsObject(payload) {
		return false, err
	}
	class := ""
	var failed error
	f.quietly(func() { class, failed = f.objects.ClassOf(payload) })
	if failed != nil {
		return false, failed
	}
	id, err := f.attribute(v, "id")
	if err != nil {
		return false, err
	}
	switch {
	case strings.HasSuffix(class, "::"+wrapperClass):
		data, ok, err := f.objects.Ivar(payload, "@job_data")
		if err != nil || !ok {
			return false, err
		}
		if is, err := f.is(data, heap.TypeHash); err != nil || !is {
			return false, err
		}
		var values [jobKeys]uint64
		if err := f.objects.Lookup(data, activeJobNames[:], values[:]); err != nil {
			return false, err
		}
		return f.job(r, &values, true, true)
	case strings.HasPrefix(class, "Delayed::Performable"):
		return f.delayedMethod(payload, id, r)
	}
	return f.jobObject(r, payload, id, 0)
}

// attribute reads an attribute of a record of Active Record as it came from the database; 0: it is not known.
func (f *describer) attribute(record uint64, name string) (uint64, error) {
	set, ok, err := f.objects.Ivar(record, "@attributes")
	if err != nil || !ok {
		return 0, err
	}
	if is, err := f.is(set, heap.TypeObject); err != nil || !is {
		return 0, err
	}
	values, ok, err := f.objects.Ivar(set, "@values")
	if err != nil || !ok {
		return 0, err
	}
	if is, err := f.is(values, heap.TypeHash); err != nil || !is {
		return 0, err
	}
	var of [1]uint64
	err = f.objects.Lookup(values, []string{name}, of[:])
	return of[0], err
}

// delayedMethod reads a Delayed::PerformableMethod: the class of the object and the method that is called.
func (f *describer) delayedMethod(payload, id uint64, r *reading) (found bool, err error) {
	object, ok, err := f.objects.Ivar(payload, "@object")
	if err != nil || !ok || !f.objects.IsObject(object) {
		return false, err
	}
	method, ok, err := f.objects.Ivar(payload, "@method_name")
	if err != nil || !ok {
		return false, err
	}
	var args uint64
	if f.values {
		if args, _, err = f.objects.Ivar(payload, "@args"); err != nil {
			return false, err
		}
	}
	var failed error
	name, of, mark := "", "", "."
	f.quietly(func() {
		name = f.text(method, maxClass, &failed)
		class, is, err := f.objects.PathOfClass(object)
		if err == nil && !is {
			mark = "#"
			class, err = f.objects.ClassOf(object)
		}
		of, failed = class, cmp.Or(failed, err)
		if args != 0 {
			r.values = f.inspect(args, 0, &failed)
		}
	})
	if failed != nil {
		return false, failed
	}
	if !className(of) || !codeName(strings.TrimRight(name, "?!="), "_") {
		return false, nil
	}
	r.kind, r.endpoint = sampler.WorkJob, of+mark+name
	r.identity[0], r.identity[1], r.identity[2] = payload, id, args
	return true, nil
}
