package profile

import (
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
)

// WriteHeap writes the objects of a heap as a pprof profile. Its sample types are heap-live-samples, a number of
// objects, and heap-live-size in bytes. A class is a function, because nothing in the process says where objects were
// allocated.
func WriteHeap(w io.Writer, of sampler.Process, h *export.Heap) error {
	program := &profile.Mapping{ID: 1, File: export.ProgramName(of), HasFunctions: true}
	p := &profile.Profile{
		SampleType:        []*profile.ValueType{{Type: "heap-live-samples", Unit: "count"}, {Type: "heap-live-size", Unit: "bytes"}},
		DefaultSampleType: "heap-live-size",
		TimeNanos:         of.WallTime(h.MonotonicNS).UnixNano(),
		Mapping:           []*profile.Mapping{program},
		Comments:          []string{fmt.Sprintf("ddtop: pid %d, %s", of.PID, flamegraph.Printable(of.RubyDescription))},
	}
	for i := range h.Classes {
		k, id := &h.Classes[i], uint64(i+1)
		name := flamegraph.Printable(k.Name)
		f := &profile.Function{ID: id, Name: name, SystemName: name}
		l := &profile.Location{ID: id, Mapping: program, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{int64(k.Objects), int64(k.Bytes)},
			Label: map[string][]string{"allocation class": {name}}})
	}
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("pprof profile of the heap of pid %d: %w", of.PID, err)
	}
	return p.Write(w)
}
