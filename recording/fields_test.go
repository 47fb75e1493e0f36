package recording

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestEveryField: a recording keeps every field of a sample. Which there are, the types say: one that is added and not written
// fails here.
func TestEveryField(t *testing.T) {
	g := newGenerator(9)
	var s sampler.Sample
	n := int64(0)
	fillIn(reflect.ValueOf(&s).Elem(), &n)
	s.TimeNS, s.Depth, s.GCDetail.HeapCount = 1e15, sampler.StackTick, sampler.MaxGCHeaps
	for i := range s.Threads {
		s.Threads[i].Stack, s.Threads[i].Kernel.Peer = g.stacks[i], g.peers[i]
	}
	s.Proc.Pressure.Source = sampler.PressureMachine
	file, want := record(t, 1, func() *sampler.Sample { return &s }, g.d, nil)
	compare(t, "every field", readAll(t, openBytes(t, file)), want)
}

// fillIn sets each field that is exported to a value of its own; lists get two elements.
func fillIn(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillIn(v.Field(i), n)
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
