package recording

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestEveryField: a recording keeps every field of a sample. The test finds the fields by reflection, so it fails if a
// new field is not written.
func TestEveryField(t *testing.T) {
	g := newGenerator(9)
	var s sampler.Sample
	n := int64(0)
	fillIn(reflect.ValueOf(&s).Elem(), &n)
	s.Native = nil
	s.TimeNS, s.Depth, s.GCDetail.HeapCount = 1e15, sampler.StackTick, sampler.MaxGCHeaps
	for i := range s.Threads {
		v := &s.Threads[i].Serving
		v.Work, v.Statement, v.Exception = g.works[i], g.texts[i], g.texts[2+i]
		s.Threads[i].Stack, s.Threads[i].Kernel.Peer = g.stacks[i], g.peers[i]
		s.Threads[i].Native = g.stacks[20+i]
	}
	for i := range s.Fibers.List {
		f := &s.Fibers.List[i]
		f.Stack = g.stacks[5+i]
		f.Serving.Work, f.Serving.Statement, f.Serving.Exception = g.works[5+i], g.texts[7+i], g.texts[9+i]
	}
	for i := range s.Runs {
		s.Runs[i].Stack = g.stacks[30+i]
	}
	s.Changes.FromNS, s.Changes.ToNS = 1e15-10, 1e15
	for i := range s.Changes.List {
		x := &s.Changes.List[i]
		x.AtNS, x.Stack, x.Resumes = 1e15-3, g.stacks[3+2*i], g.stacks[4+2*i]
		x.Doing.Unfound = false // only a Doing of kind DoingWorks, whose other fields are empty, can have Unfound
	}
	s.Proc.Pressure.Source = sampler.PressureMachine
	file, want := record(t, 1, func() *sampler.Sample { return &s }, g.d, nil)
	compare(t, "every field", readAll(t, openBytes(t, file)), want)
}

// TestEveryWord: a recording keeps every field of the values in its tables.
func TestEveryWord(t *testing.T) {
	d := sampler.NewDictionary()
	s := &sampler.Sample{TimeNS: 1e15, Depth: sampler.StackTick}
	for range 2 { // the second thread is written as the difference to the first one
		var w sampler.Work
		n := int64(len(s.Threads) * 50)
		fillIn(reflect.ValueOf(&w).Elem(), &n)
		w.Kind = sampler.WorkJob
		s.Threads = append(s.Threads, sampler.Thread{ID: sampler.ThreadID(n), Serving: sampler.Serving{Work: d.InternWork(w)}})
	}
	file, want := record(t, 1, func() *sampler.Sample { return s }, d, nil)
	if want[0].works[0] == want[0].works[1] {
		t.Error("both are the same")
	}
	compare(t, "every word", readAll(t, openBytes(t, file)), want)
}

// TestEveryNativeWord: a recording keeps every field of the frame of a C function.
func TestEveryNativeWord(t *testing.T) {
	d := sampler.NewDictionary()
	var f sampler.Frame
	n := int64(0)
	fillIn(reflect.ValueOf(&f).Elem(), &n)
	f.Origin = sampler.OriginCore
	plain := f
	plain.Native = sampler.NativeCode{}
	ruby := d.InternStack(0, d.InternFrame(plain))
	s := &sampler.Sample{TimeNS: 1e15, Threads: []sampler.Thread{{ID: 1, Stack: ruby, Native: d.InternStack(ruby, d.InternFrame(f))}}}
	file, want := record(t, 1, func() *sampler.Sample { return s }, d, nil)
	r := openBytes(t, file)
	compare(t, "every native word", readAll(t, r), want)
	back, err := r.At(1e15)
	if err != nil {
		t.Fatal(err)
	}
	caller, id := r.Dictionary().Stack(back.Threads[0].Native)
	if got := r.Dictionary().Frame(id); got != d.Frame(d.Frames(s.Threads[0].Native, nil)[0]) || caller != back.Threads[0].Stack {
		t.Errorf("%+v, want %+v", got, f)
	}
}

// fillIn sets each exported field to a different value. Lists get two elements.
func fillIn(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fillIn(v.Field(i), n)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillIn(v.Index(0), n)
		fillIn(v.Index(1), n)
	case reflect.Array:
		for i := range v.Len() {
			fillIn(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int, reflect.Int64:
		v.SetInt(*n % 100)
	case reflect.Uint8:
		v.SetUint(uint64(1 + *n%3))
	default:
		v.SetUint(uint64(*n))
	}
}
