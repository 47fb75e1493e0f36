package profile

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// These are labels of a pprof sample (docs/reference/cli.md lists them all). If Datadog's Ruby profiler has the same
// label, ddtop uses Datadog's name for it. The value of labelThreadID is the native thread's id and then ddtop's own
// id: "4253 (3)".
const (
	labelThreadID   = "thread id"
	labelThreadName = "thread name"
	labelRactor     = "ractor"
	LabelDdtopState = "ddtop state"
	LabelRest       = "ddtop rest"
	// labelOrigin is the origin of the innermost frame's code, in the words of sampler.Origin. labelGem is the gem of
	// that code, if it has one.
	labelOrigin = "origin"
	labelGem    = "gem"
	// These are the labels of the request or job for which the thread works. The values of the two span ids are
	// numbers, and other values are text.
	labelEndpoint = "trace endpoint"
	labelSpan     = "span id"
	labelRootSpan = "local root span id"
	labelTrace    = "trace id" // 32 digits of hexadecimal
	// labelEnd is the time at which the sample's interval ends, in ns since 1970.
	labelEnd = "end_timestamp_ns"
)

// These are labels whose values are the words that Datadog uses.
const (
	LabelState    = "state"
	LabelEvent    = "event"
	labelGCReason = "gc reason"
	labelGCCause  = "gc cause"
	labelGCType   = "gc type"

	EventGC = "gc"
)

// GCFrame is the outermost frame of samples taken during a garbage collection. Inside it are the frames of the code
// that the collection interrupted.
const GCFrame = "Garbage Collection"

// datadogGCReasons and datadogGCCauses translate Ruby's words for the reason of a garbage collection into Datadog's
// words.
var (
	datadogGCReasons = map[string]string{
		"nofree": "not enough free slots (NOFREE)", "oldgen": "old generation full (OLDGEN)",
		"shady": "too many objects without write barriers (SHADY)", "force": "requested (FORCE)",
		"oldmalloc": "heap bytes allocated threshold (OLDMALLOC)",
	}
	datadogGCCauses = map[string]string{
		"newobj": "object allocation", "malloc": "malloc()", "method": "GC.start()", "capi": "rb_gc()", "stress": "stress",
	}
)

// gcLabels adds labels that mark a sample as a garbage collection and give its reason (flamegraph.Key.GC). If reason is
// 0, there is no label for the reason.
func gcLabels(s *profile.Sample, reason uint16) {
	s.Label[LabelEvent] = []string{EventGC}
	if reason == 0 {
		return
	}
	bits := uint32(reason)
	kind := "minor"
	if sampler.GCIsMajor(bits) {
		kind = "major"
	}
	s.Label[labelGCType] = []string{kind}
	if why, ok := datadogGCReasons[sampler.GCMajorBy(bits)]; ok {
		s.Label[labelGCReason] = []string{why}
	}
	if cause, ok := datadogGCCauses[sampler.GCTrigger(bits)]; ok {
		s.Label[labelGCCause] = []string{cause}
	}
}

// label adds the labels of an entry to a sample.
func (b *profileBuilder) label(s *profile.Sample, k flamegraph.Key) {
	s.Label = map[string][]string{LabelDdtopState: {k.State.String()}}
	if k.Rests {
		s.Label[LabelRest] = []string{"yes"}
	}
	if f := b.innermost(); f.Origin != sampler.OriginUnknown {
		s.Label[labelOrigin] = []string{f.Origin.String()}
		if f.Gem != "" {
			s.Label[labelGem] = []string{flamegraph.Printable(f.Gem)}
		}
	}
	l := b.threadLabels(k.Thread)
	s.Label[labelThreadID] = []string{l.tid}
	if l.name != "" {
		s.Label[labelThreadName] = []string{l.name}
	}
	if l.ractor != "" {
		s.Label[labelRactor] = []string{l.ractor}
	}
	s.Label[LabelState] = []string{k.State.Datadog()}
	if k.State == gvl.GC {
		gcLabels(s, k.GC)
	}
	b.serving(s, k.Endpoint)
}

// serving adds labels for the request or job for which the thread worked.
func (b *profileBuilder) serving(sample *profile.Sample, id flamegraph.EndpointID) {
	if int(id) >= len(b.m.Served) {
		return
	}
	s := &b.m.Served[id]
	if s.Name != "" {
		sample.Label[labelEndpoint] = []string{flamegraph.Printable(s.Name)}
	}
	// A span's id is an unsigned number, but a label's number is signed. So a large id becomes negative here, with all
	// its bits kept. The tracers' libraries do the same.
	if s.Span != 0 {
		setNumber(sample, labelSpan, int64(s.Span))
	}
	if s.RootSpan != 0 {
		setNumber(sample, labelRootSpan, int64(s.RootSpan))
	}
	if s.Trace != ([16]byte{}) {
		sample.Label[labelTrace] = []string{hex.EncodeToString(s.Trace[:])}
	}
}

func setNumber(s *profile.Sample, label string, n int64) {
	if s.NumLabel == nil {
		s.NumLabel = make(map[string][]int64, 3)
	}
	s.NumLabel[label] = []int64{n}
}

type threadLabels struct {
	tid, name, ractor string
}

func (b *profileBuilder) threadLabels(id sampler.ThreadID) threadLabels {
	if l, ok := b.labels[id]; ok {
		return l
	}
	var l threadLabels
	info, known := b.m.Dict.Thread(id)
	if known {
		l.name = flamegraph.Printable(info.Name)
		if l.name == "" && info.Main {
			l.name = "main"
		}
		l.ractor = strconv.FormatUint(uint64(info.Ractor), 10)
	}
	l.tid = fmt.Sprintf("%d (%d)", info.TID, id)
	if l.name == "" {
		l.name = b.starts[id]
	}
	b.labels[id] = l
	return l
}

// threadStarts returns where each thread was started, in the form of Thread#inspect: "app/pool.rb:12". This is the
// outermost frame of Ruby code. All stacks of a thread have it in common, except stacks of fibers. If a thread has
// several outermost frames, threadStarts returns the one with the most time.
func threadStarts(dict *sampler.Dictionary, entries []flamegraph.Entry) map[sampler.ThreadID]string {
	type start struct {
		thread sampler.ThreadID
		frame  sampler.FrameID
	}
	seen := make(map[start]int64)
	best := make(map[sampler.ThreadID]start)
	outermost := make(map[sampler.StackID]sampler.FrameID)
	var frames []sampler.FrameID
	for i := range entries {
		k := &entries[i].Key
		at := start{thread: k.Thread}
		var ok bool
		if at.frame, ok = outermost[k.Stack]; !ok {
			frames = dict.Frames(k.Stack, frames[:0])
			for n := len(frames) - 1; n >= 0 && at.frame == 0; n-- {
				if f := dict.Frame(frames[n]); !f.C && f.Path != "" {
					at.frame = frames[n]
				}
			}
			outermost[k.Stack] = at.frame
		}
		if at.frame == 0 {
			continue
		}
		seen[at] += entries[i].Weights.WallNS
		if top, ok := best[k.Thread]; !ok || seen[at] > seen[top] || seen[at] == seen[top] && at.frame < top.frame {
			best[k.Thread] = at
		}
	}
	out := make(map[sampler.ThreadID]string, len(best))
	for id, at := range best {
		f := dict.Frame(at.frame)
		out[id] = flamegraph.Printable(f.Path) + ":" + strconv.Itoa(int(f.FirstLine))
	}
	return out
}
