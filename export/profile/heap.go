package profile

import (
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// WriteHeap writes the objects of a heap as a pprof profile, as addHeap describes.
func WriteHeap(w io.Writer, of sampler.Process, h *export.Heap) error {
	traced := h.Allocated != nil
	program := &profile.Mapping{ID: 1, File: export.ProgramName(of), HasFunctions: true,
		HasFilenames: traced, HasLineNumbers: traced}
	p := &profile.Profile{
		DefaultSampleType: heapTypes[1].Type,
		TimeNanos:         of.WallTime(h.MonotonicNS).UnixNano(),
		Mapping:           []*profile.Mapping{program},
		Comments:          []string{fmt.Sprintf("ddtop: pid %d, %s", of.PID, flamegraph.Printable(of.RubyDescription))},
	}
	addHeap(p, program, h)
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("pprof profile of the heap of pid %d: %w", of.PID, err)
	}
	return p.Write(w)
}

// heapTypes are the sample types of live objects, as Datadog names them.
var heapTypes = []profile.ValueType{{Type: "heap-live-samples", Unit: "count"}, {Type: "heap-live-size", Unit: "bytes"}}

// noMethod is the name of the function if an object was allocated outside any method.
const noMethod = "(no method)"

// addHeap adds the objects of a heap to a profile. It adds two sample types: heap-live-samples, a number of objects,
// and heap-live-size in bytes. In each sample, the outermost function is the class of the objects. If the place of
// allocation is known, the innermost function is the method that allocated them.
func addHeap(p *profile.Profile, program *profile.Mapping, h *export.Heap) {
	had := len(p.SampleType)
	for _, t := range heapTypes {
		p.SampleType = append(p.SampleType, &t)
	}
	for _, s := range p.Sample {
		s.Value = append(s.Value, 0, 0)
	}
	type place struct {
		name, file string
		line       int
	}
	functions, locations := make(map[place]*profile.Function), make(map[place]*profile.Location)
	at := func(x place) *profile.Location {
		l := locations[x]
		if l != nil {
			return l
		}
		f := functions[place{x.name, x.file, 0}]
		if f == nil {
			f = &profile.Function{ID: uint64(len(p.Function) + 1), Name: x.name, SystemName: x.name, Filename: x.file}
			p.Function, functions[place{x.name, x.file, 0}] = append(p.Function, f), f
		}
		l = &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: program,
			Line: []profile.Line{{Function: f, Line: int64(x.line)}}}
		p.Location, locations[x] = append(p.Location, l), l
		return l
	}
	add := func(class string, objects, bytes uint64, stack ...*profile.Location) {
		p.Sample = append(p.Sample, &profile.Sample{
			Location: stack,
			Value:    append(make([]int64, had), int64(objects), int64(bytes)),
			Label:    map[string][]string{"allocation class": {class}},
		})
	}
	places := make(map[string][]*report.HeapPlace)
	if a := h.Allocated; a != nil {
		for i := range a.Places {
			places[a.Places[i].Class] = append(places[a.Places[i].Class], &a.Places[i])
		}
	}
	for i := range h.Classes {
		k := &h.Classes[i]
		name := flamegraph.Printable(k.Name)
		class, objects, bytes := at(place{name: name}), k.Objects, k.Bytes
		for _, x := range places[k.Name] {
			method := noMethod
			if x.Method != nil {
				method = flamegraph.Printable(*x.Method)
			}
			// some objects of the class were counted under the other classes (sampler.AllocOthers), but the counts by
			// place include them
			if x.Objects > objects || x.Bytes > bytes {
				continue
			}
			add(name, x.Objects, x.Bytes, at(place{method, flamegraph.Printable(x.Path), x.Line}), class)
			objects, bytes = objects-x.Objects, bytes-x.Bytes
		}
		if objects > 0 || bytes > 0 || len(places[k.Name]) == 0 {
			add(name, objects, bytes, class)
		}
	}
}
