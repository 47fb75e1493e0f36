package profile

import (
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
)

// WriteHeap writes the objects of a heap as a pprof profile, as addHeap describes.
func WriteHeap(w io.Writer, of sampler.Process, h *export.Heap) error {
	program := &profile.Mapping{ID: 1, File: export.ProgramName(of), HasFunctions: true}
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

// addHeap adds the objects of a heap to a profile, with the sample types heap-live-samples, a number of objects, and
// heap-live-size in bytes. A class is a function, because nothing in the process says where objects were allocated.
func addHeap(p *profile.Profile, program *profile.Mapping, h *export.Heap) {
	had := len(p.SampleType)
	for _, t := range heapTypes {
		p.SampleType = append(p.SampleType, &t)
	}
	for _, s := range p.Sample {
		s.Value = append(s.Value, 0, 0)
	}
	for i := range h.Classes {
		k := &h.Classes[i]
		name := flamegraph.Printable(k.Name)
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, SystemName: name}
		l := &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: program, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{
			Location: []*profile.Location{l},
			Value:    append(make([]int64, had), int64(k.Objects), int64(k.Bytes)),
			Label:    map[string][]string{"allocation class": {name}},
		})
	}
}
