package profile

import (
	"fmt"
	"io"
	"slices"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// speedscopeSchema is the text by which www.speedscope.app recognises the format.
const speedscopeSchema = "https://www.speedscope.app/file-format-schema.json"

type speedscopeFile struct {
	Schema   string              `json:"$schema"`
	Shared   speedscopeShared    `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
	// Active is the index of the profile that speedscope shows first.
	Active   int    `json:"activeProfileIndex"`
	Name     string `json:"name"`
	Exporter string `json:"exporter"`
	// busiest is how long the thread of the active profile was at work. If the metric is not a time, busiest is the
	// weight of this thread.
	busiest int64
}

type speedscopeShared struct {
	Frames []speedscopeFrame `json:"frames"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int32  `json:"line,omitempty"`
}

type speedscopeProfile struct {
	Type       string  `json:"type"`
	Name       string  `json:"name"`
	Unit       string  `json:"unit"`
	StartValue int64   `json:"startValue"`
	EndValue   int64   `json:"endValue"`
	Samples    [][]int `json:"samples"`
	Weights    []int64 `json:"weights"`
}

// WriteSpeedscope writes a file for https://www.speedscope.app, with one profile per thread. The stacks are not in
// order of time, so only speedscope's "left heavy" view is useful. The innermost frame of a stack is the thread's
// state. The busiest thread is shown first. The main thread would be a bad choice, because it mostly waits for others.
func WriteSpeedscope(w io.Writer, m Measured, metric flamegraph.Metric) error {
	return WriteSpeedscopeOf(w, []Measured{m}, metric)
}

// WriteSpeedscopeOf writes several processes as WriteSpeedscope does. The names of their profiles begin with "program
// [PID] ".
func WriteSpeedscopeOf(w io.Writer, list []Measured, metric flamegraph.Metric) error {
	f := speedscopeFile{
		Schema: speedscopeSchema, Exporter: "ddtop",
		Shared: speedscopeShared{Frames: []speedscopeFrame{}}, Profiles: []speedscopeProfile{},
	}
	if len(list) > 0 {
		f.Name = export.ProgramName(list[0].Process)
	}
	index := make(map[speedscopeFrame]int)
	frame := func(sf speedscopeFrame) int {
		sf.Name, sf.File = flamegraph.Printable(sf.Name), flamegraph.Printable(sf.File)
		i, ok := index[sf]
		if !ok {
			i = len(f.Shared.Frames)
			index[sf] = i
			f.Shared.Frames = append(f.Shared.Frames, sf)
		}
		return i
	}
	unit := "nanoseconds"
	if !metric.IsTime() {
		unit = "none"
	}
	for _, m := range list {
		if err := m.Enough(metric); err != nil {
			return err
		}
		prefix := ""
		if len(list) > 1 {
			prefix = fmt.Sprintf("%s [%d] ", export.ProgramName(m.Process), m.Process.PID)
		}
		f.add(m, metric, prefix, unit, frame)
	}
	return export.WriteCompactJSON(w, f)
}

// add adds the profiles of a process's threads.
func (f *speedscopeFile) add(m Measured, metric flamegraph.Metric, prefix, unit string, frame func(speedscopeFrame) int) {
	m = m.Marked()
	var ids []sampler.FrameID
	last := sampler.ThreadID(0)
	value := m.Weights.Values(metric)
	begun := false
	var busy int64
	for _, e := range m.Ordered(false, false) { // the entries are ordered by thread
		v := value(e.Weights)
		if v <= 0 {
			continue
		}
		if !begun || e.Key.Thread != last {
			begun, last, busy = true, e.Key.Thread, 0
			f.Profiles = append(f.Profiles, speedscopeProfile{Type: "sampled", Name: prefix + flamegraph.Printable(gvl.ThreadName(last, m.Dict)), Unit: unit})
		}
		p := &f.Profiles[len(f.Profiles)-1]
		ids = m.Dict.Frames(e.Key.Stack, ids[:0])
		slices.Reverse(ids)
		stack := make([]int, 0, len(ids)+1)
		for _, id := range ids {
			fr := m.Dict.Frame(id)
			sf := speedscopeFrame{Name: fr.Label}
			if !fr.C { // leave out the path of a C function, because Ruby gives it the path of its caller
				sf.File, sf.Line = fr.File(), max(fr.FirstLine, 0)
			}
			stack = append(stack, frame(sf))
		}
		if len(ids) == 0 {
			stack = append(stack, frame(speedscopeFrame{Name: flamegraph.NoStack}))
		}
		stack = append(stack, frame(speedscopeFrame{Name: "[" + e.Key.State.String() + "]"}))
		p.Samples = append(p.Samples, stack)
		p.Weights = append(p.Weights, v)
		p.EndValue += v
		if e.Key.State.Works() {
			busy += v
		}
		if busy > f.busiest {
			f.busiest, f.Active = busy, len(f.Profiles)-1
		}
	}
}
