package profile

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/exporttest"
	"github.com/ddtop/ddtop/sampler"
)

// labelRun is a measurement of the invented shop, as input for a profile. It has a Timeline (each interval with its
// time) and the sums. One of its threads has no name.
func labelRun(t *testing.T) Measured {
	t.Helper()
	s := exporttest.NewShop()
	s.Dict.SetThread(sampler.ThreadInfo{ID: 4, Ractor: 1, TID: 4254})
	r, err := flamegraph.NewRolling(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	timeline := NewTimeline()
	class, stream := gvl.NewClassifier(s.Proc, s.Dict), stream.New(s.Proc)
	c := flamegraph.NewCollector(stream, nil, r, timeline)
	c.BySpan(s.Dict, nil)
	c.ByGC()
	next := s.Stream()
	for range 12 {
		x := next()
		stream.Feed(x, class.Classify(x))
	}
	stream.Finish()
	c.Finish()
	m := Measured{Process: s.Proc, Dict: s.Dict, Weights: new(flamegraph.Snapshot), Timeline: timeline, Served: c.Served()}
	r.Snapshot(m.Weights)
	return m
}

// labelsAt returns the labels that a sample of a thread must have at a given time. The time is ms milliseconds after
// the first sample of Shop.Stream. Samples are 5 ms apart, and a state begins in the middle between two samples.
func labelsAt(thread int, ms float64) map[string]string {
	tid := 4250 + thread
	if thread == 1 {
		tid = 4242
	}
	names := []string{"", "main", "worker-3", "http-1", "app/server.rb:22", "cart", `stock "α"`}
	out := map[string]string{labelThreadID: fmt.Sprintf("%d (%d)", tid, thread), labelRactor: "1"}
	state := func(datadog, ddtop string) { out[LabelState], out[LabelDdtopState] = datadog, ddtop }
	if thread < len(names) {
		out[labelThreadName] = names[thread]
	} else {
		out[labelThreadID] = fmt.Sprintf("0 (%d)", thread)
	}
	switch thread {
	case 1:
		state("waiting", "parked")
	case 2:
		state("had cpu", "running")
		if ms > 37.5 && ms < 47.5 {
			state("had cpu", "gc")
			maps.Copy(out, map[string]string{LabelEvent: "gc", labelGCType: "minor", labelGCCause: "malloc()"})
		}
	case 3:
		state("network", "io")
		if ms > 22.5 {
			state("waiting for gvl", "waiting")
		}
	case 4:
		state("network", "io")
		maps.Copy(out, map[string]string{labelEndpoint: "GET orders#index", labelSpan: "-9223372036854775803", labelRootSpan: "9"})
	case 5:
		state("blocked", "lock")
		out[labelEndpoint] = "MailJob"
	case 6:
		state("blocked", "lock")
	default:
		state("unknown", "unknown")
	}
	return out
}

// allLabels returns all labels of a sample except its end time. endMS is the end time in ms, counted as in labelsAt. It
// is -1 if the sample has no end time.
func allLabels(t *testing.T, m Measured, s *profile.Sample) (labels map[string]string, endMS float64) {
	t.Helper()
	labels, endMS = map[string]string{}, -1
	for k, v := range s.Label {
		labels[k] = strings.Join(v, "|")
	}
	for k, v := range s.NumLabel {
		if len(v) != 1 {
			t.Errorf("%s is %v", k, v)
		}
		if k == labelEnd {
			endMS = float64(v[0]-m.Process.WallTime(m.Process.AttachedNS-55e6).UnixNano()) / 1e6
			continue
		}
		labels[k] = fmt.Sprint(v[0])
	}
	return labels, endMS
}

func TestProfileLabelsOfAKnownRun(t *testing.T) {
	m := labelRun(t)
	p, err := Profile(m)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string][]int64{} // the sums of the samples' values, by the samples' labels
	add := func(to map[string][]int64, labels map[string]string, values []int64) {
		k := fmt.Sprint(labels)
		if to[k] == nil {
			to[k] = make([]int64, len(values))
		}
		for i, v := range values {
			to[k][i] += v
		}
	}
	wall := map[string]float64{}
	for _, s := range p.Sample {
		labels, endMS := allLabels(t, m, s)
		add(sums, labels, s.Value)
		var tid, thread int
		if _, err := fmt.Sscanf(labels[labelThreadID], "%d (%d)", &tid, &thread); err != nil {
			t.Fatalf("%v: %v", labels, err)
		}
		length := float64(s.Value[valueWall]) / 1e6
		want := labelsAt(thread, endMS-length/2)
		if length == 0 && s.Value[valueCPU] != 0 {
			want[LabelState] = gvl.DatadogCPU
		}
		if !reflect.DeepEqual(labels, want) {
			t.Errorf("thread %d from %g to %g ms has the labels\n%v, want\n%v", thread, endMS-length, endMS, labels, want)
		}
		if s.Value[valueCPU] != 0 && labels[LabelState] != gvl.DatadogCPU {
			t.Errorf("%d ns of CPU time in state %s", s.Value[valueCPU], labels[LabelState])
		}
		if begin := endMS - length; thread == 3 && begin < 22.5 && endMS > 22.5 {
			t.Errorf("a sample from %g to %g ms, and the wait began in it", begin, endMS)
		}
		if outer := s.Location[len(s.Location)-1].Line[0].Function.Name; (outer == GCFrame) != (labels[LabelEvent] == EventGC) {
			t.Errorf("%v is under %s", labels, outer)
		}
		timeline := int64(0)
		if labels[LabelEvent] == EventGC {
			timeline = s.Value[valueWall]
		}
		if s.Value[valueTimeline] != timeline || s.Value[valueCPUSamples] != s.Value[valueSamples] {
			t.Errorf("%v has the values %v", labels, s.Value)
		}
		wall[labels[labelThreadName]+" "+labels[LabelDdtopState]] += length
	}
	want := map[string]float64{"main parked": 55, "worker-3 running": 45, "worker-3 gc": 10, "http-1 io": 22.5, "http-1 waiting": 32.5,
		"app/server.rb:22 io": 55, "cart lock": 55, `stock "α" lock`: 55, " unknown": 37.5}
	if !reflect.DeepEqual(wall, want) {
		t.Errorf("ms by thread and state %v, want %v", wall, want)
	}
	// A profile without timestamps must have the same sums as one with timestamps.
	m.Timeline = nil
	if p, err = Profile(m); err != nil {
		t.Fatal(err)
	}
	got := map[string][]int64{}
	for _, s := range p.Sample {
		labels, endMS := allLabels(t, m, s)
		if endMS != -1 {
			t.Errorf("%v has a time", labels)
		}
		add(got, labels, s.Value)
	}
	if !reflect.DeepEqual(got, sums) {
		t.Errorf("sums by labels\n%v, with times\n%v", got, sums)
	}
}

// TestGCLabels: for each of Ruby's reasons for a collection, the labels must have Datadog's word. If a collection has
// several reasons, the labels must have the reason that Ruby itself names.
func TestGCLabels(t *testing.T) {
	for _, c := range []struct {
		reason uint16
		want   string
	}{
		{0, "map[event:[gc]]"},
		{sampler.GCByNewObject, "map[event:[gc] gc cause:[object allocation] gc type:[minor]]"},
		{sampler.GCByMethod | sampler.GCMajorByForce, "map[event:[gc] gc cause:[GC.start()] gc reason:[requested (FORCE)] gc type:[major]]"},
		{sampler.GCByCAPI | sampler.GCMajorByShady, "map[event:[gc] gc cause:[rb_gc()] gc reason:[too many objects without write barriers (SHADY)] gc type:[major]]"},
		{sampler.GCByStress | sampler.GCMajorByNoFree | sampler.GCMajorByOldMalloc, "map[event:[gc] gc cause:[stress] gc reason:[not enough free slots (NOFREE)] gc type:[major]]"},
		{sampler.GCByMalloc | sampler.GCMajorByOldMalloc, "map[event:[gc] gc cause:[malloc()] gc reason:[heap bytes allocated threshold (OLDMALLOC)] gc type:[major]]"},
		{sampler.GCMajorByOldGen, "map[event:[gc] gc reason:[old generation full (OLDGEN)] gc type:[major]]"},
	} {
		s := profile.Sample{Label: map[string][]string{}}
		if gcLabels(&s, c.reason); fmt.Sprint(s.Label) != c.want {
			t.Errorf("%#x: %v, want %s", c.reason, s.Label, c.want)
		}
	}
}

// TestTimelineLimit: if a measurement has more weights than the timeline may hold, the sums must still contain all
// weights. The profile must then have a comment which says that some of its sums lack timestamps.
func TestTimelineLimit(t *testing.T) {
	process, dict, next := exporttest.Random(3)
	class, stream := gvl.NewClassifier(process, dict), stream.New(process)
	r, err := flamegraph.NewRolling(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := flamegraph.NewCollector(stream, nil, r)
	for range 800 {
		s := next()
		stream.Feed(s, class.Classify(s))
	}
	stream.Finish()
	c.Finish()
	m := Measured{Process: process, Dict: dict, Weights: new(flamegraph.Snapshot)}
	r.Snapshot(m.Weights)
	timeline := NewTimeline()
	timeline.limit = 40
	full := NewTimeline()
	for i, e := range m.Weights.Entries {
		for _, to := range []*Timeline{timeline, full} {
			to.Add(int64(6e9)+int64(i)*1e6, e.Key, flamegraph.Weights{Samples: 1, CPUNS: 5})
			to.Add(int64(6e9)+int64(i)*1e6, e.Key, e.Weights)
		}
	}
	var total, cut [7]int64
	for _, c := range []struct {
		timeline *Timeline
		sums     *[7]int64
	}{{full, &total}, {timeline, &cut}} {
		m.Timeline = c.timeline
		p, err := Profile(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Sample {
			for i := range c.sums {
				c.sums[i] += s.Value[i]
			}
		}
		if told := strings.Contains(strings.Join(p.Comments, "\n"), "sums without timestamps"); told != (c.timeline == timeline) {
			t.Errorf("comments %q", p.Comments)
		}
	}
	if len(m.Weights.Entries) <= timeline.limit || total != cut || total[valueWall] == 0 {
		t.Errorf("%d entries, sums %v, all %v", len(m.Weights.Entries), cut, total)
	}
}
