package profile

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
)

// labelPID is the label of a sample that has the process's PID. A profile of several processes uses it.
const labelPID = "pid"

// Profiles returns one pprof profile of several processes. The label labelPID of a sample names its process. The
// profile's time begins with the first measurement and ends with the last one.
func Profiles(list []Measured) (*profile.Profile, error) {
	var all []*profile.Profile
	var from, to int64
	for i, m := range list {
		p, err := Profile(m)
		if err != nil {
			return nil, err
		}
		for _, s := range p.Sample {
			s.Label[labelPID] = []string{strconv.Itoa(m.Process.PID)}
		}
		end := p.TimeNanos + p.DurationNanos
		if i == 0 {
			from, to = p.TimeNanos, end
		}
		from, to = min(from, p.TimeNanos), max(to, end)
		all = append(all, p)
	}
	sameTypes(all)
	merged, err := profile.Merge(all)
	if err != nil {
		return nil, fmt.Errorf("pprof profile of %d processes: %w", len(list), err)
	}
	merged.TimeNanos, merged.DurationNanos = from, to-from
	return merged, nil
}

// sameTypes makes the sample types of all profiles equal. If a process has no estimate of allocations, sameTypes
// removes the estimates of all processes.
func sameTypes(all []*profile.Profile) {
	least := len(all[0].SampleType)
	for _, p := range all {
		least = min(least, len(p.SampleType))
	}
	for _, p := range all {
		p.SampleType = p.SampleType[:least]
		for _, s := range p.Sample {
			s.Value = s.Value[:least]
		}
	}
}

// WriteProfiles writes the profile that Profiles returns.
func WriteProfiles(w io.Writer, list []Measured) error {
	p, err := Profiles(list)
	if err != nil {
		return err
	}
	return p.Write(w)
}

// WriteCollapsedOf writes the collapsed stacks of several processes. The first frame of each line is "program [PID]".
func WriteCollapsedOf(w io.Writer, list []Measured, metric flamegraph.Metric) error {
	for _, m := range list {
		var b bytes.Buffer
		if err := WriteCollapsed(&b, m, metric); err != nil {
			return err
		}
		prefix := CollapsedName(fmt.Sprintf("%s [%d]", export.ProgramName(m.Process), m.Process.PID)) + ";"
		for line := range bytes.Lines(b.Bytes()) {
			if _, err := fmt.Fprintf(w, "%s%s", prefix, line); err != nil {
				return err
			}
		}
	}
	return nil
}
