package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/protobuf"
)

// Numbers of fields in opentelemetry.proto.collector.profiles.v1development and profiles.v1development.
const (
	requestResources  protobuf.Field = 1
	requestDictionary protobuf.Field = 2

	resourceResource protobuf.Field = 1
	resourceScopes   protobuf.Field = 2

	resourceAttributes protobuf.Field = 1 // a field of a Resource

	scopeScope    protobuf.Field = 1
	scopeProfiles protobuf.Field = 2
	scopeName     protobuf.Field = 1 // a field of an InstrumentationScope
	scopeVersion  protobuf.Field = 2

	profileSampleType protobuf.Field = 1
	profileSamples    protobuf.Field = 2
	profileTime       protobuf.Field = 3
	profileDuration   protobuf.Field = 4
	profilePeriodType protobuf.Field = 5
	profilePeriod     protobuf.Field = 6
	profileID         protobuf.Field = 7

	typeType protobuf.Field = 1
	typeUnit protobuf.Field = 2

	sampleStack      protobuf.Field = 1
	sampleAttributes protobuf.Field = 2
	sampleLink       protobuf.Field = 3
	sampleValues     protobuf.Field = 4
)

// scope is the name of the InstrumentationScope: the program that made the profile.
const scope = "github.com/ddtop/ddtop"

// twice lists sample types that repeat what another sample type already has. Only Datadog's views need them, so OTLP
// leaves them out.
var twice = []string{"cpu-samples", "timeline", "alloc-samples"}

// request returns the ExportProfilesServiceRequest for one profile of a process. A Profile message of OTLP has only one
// sample type. So the request has a Profile for each sample type, and all of them share the dictionary. Samples with
// the value 0 are left out.
func request(p *push.Period, version string) ([]byte, error) {
	parsed, err := profile.ParseData(p.Pprof)
	if err != nil {
		return nil, err
	}
	d := newDictionary()
	samples := samplesOf(d, parsed)
	who := protobuf.AppendBytes(protobuf.AppendBytes(nil, scopeName, scope), scopeVersion, version)
	scopes := protobuf.AppendBytes(nil, scopeScope, who)
	id := p.IDBytes()
	for at, t := range parsed.SampleType {
		if slices.Contains(twice, t.Type) {
			continue
		}
		b := protobuf.AppendBytes(nil, profileSampleType, d.valueType(t))
		for i := range samples {
			if s := &samples[i]; s.values[at] != 0 {
				b = protobuf.AppendBytes(b, profileSamples, protobuf.AppendInts(s.head, sampleValues, s.values[at:at+1]))
			}
		}
		b = protobuf.AppendFixed64(b, profileTime, uint64(parsed.TimeNanos))
		b = protobuf.AppendInt(b, profileDuration, parsed.DurationNanos)
		if parsed.PeriodType != nil {
			b = protobuf.AppendBytes(b, profilePeriodType, d.valueType(parsed.PeriodType))
			b = protobuf.AppendInt(b, profilePeriod, parsed.Period)
		}
		id[15] = byte(at) // each profile has its own ID
		scopes = protobuf.AppendBytes(scopes, scopeProfiles, protobuf.AppendBytes(b, profileID, id[:]))
	}
	resources := protobuf.AppendBytes(nil, resourceResource, resourceOf(p))
	resources = protobuf.AppendBytes(resources, resourceScopes, scopes)
	b := protobuf.AppendBytes(nil, requestResources, resources)
	return protobuf.AppendBytes(b, requestDictionary, d.encode()), nil
}

func (d *dictionary) valueType(t *profile.ValueType) []byte {
	return protobuf.AppendInt(protobuf.AppendInt(nil, typeType, d.text(t.Type)), typeUnit, d.text(t.Unit))
}

// sample is a Sample message of OTLP that is not complete yet. head is the encoded message without a value. values has
// one value for each sample type of the profile. Each type gets a message of its own: head with this value.
type sample struct {
	head   []byte
	values []int64
}

// samplesOf returns the samples of a profile. It merges samples with the same stack, attributes and link, and adds up
// their values.
func samplesOf(d *dictionary, p *profile.Profile) []sample {
	var out []sample
	at := make(map[string]int, len(p.Sample))
	for _, s := range p.Sample {
		head := protobuf.AppendInt(nil, sampleStack, int64(d.stackOf(s)))
		head = protobuf.AppendInts(head, sampleAttributes, d.attributesOf(s))
		head = protobuf.AppendInt(head, sampleLink, int64(d.linkOf(s)))
		i, ok := at[string(head)]
		if !ok {
			i = len(out)
			at[string(head)] = i
			out = append(out, sample{slices.Clip(head), make([]int64, len(s.Value))})
		}
		for n, v := range s.Value {
			out[i].values[n] += v
		}
	}
	return out
}

// labels has the labels of a pprof sample that become attributes of OTLP. If OpenTelemetry has a name for an attribute,
// labels uses it. Otherwise the name is ddtop's own. The label "state" is left out, because "ddtop state" is more
// detailed.
var labels = []struct{ label, attribute string }{
	{"thread name", "thread.name"}, {"ddtop state", "ddtop.state"}, {"trace endpoint", "ddtop.endpoint"}, {"ractor", "ddtop.ractor"},
	{"origin", "ddtop.origin"}, {"gem", "ddtop.gem"}, {"gc type", "ddtop.gc.type"}, {"gc cause", "ddtop.gc.cause"}, {"gc reason", "ddtop.gc.reason"},
}

func (d *dictionary) attributesOf(s *profile.Sample) []int32 {
	var out []int32
	// The label is for example "4253 (3)": the kernel's thread ID and ddtop's own number of the thread.
	native, own, _ := strings.Cut(first(s.Label["thread id"]), " ")
	if tid, err := strconv.ParseInt(native, 10, 64); err == nil && tid != 0 {
		out = append(out, d.attribute("thread.id", anyNumber(tid)))
	}
	if n, err := strconv.ParseInt(strings.Trim(own, "()"), 10, 64); err == nil {
		out = append(out, d.attribute("ddtop.thread", anyNumber(n)))
	}
	for _, l := range labels {
		if value := first(s.Label[l.label]); value != "" {
			out = append(out, d.attribute(l.attribute, anyText(value)))
		}
	}
	return out
}

// resources maps ddtop's tags to OpenTelemetry's names for them. OpenTelemetry wants a number for process.pid, and text
// for all others.
var resources = map[string]string{
	"service": "service.name", "version": "service.version", "env": "deployment.environment.name", "host": "host.name", "runtime-id": "service.instance.id",
	"container_id": "container.id", "pod_uid": "k8s.pod.uid", "pod_name": "k8s.pod.name", "process_id": "process.pid",
	"runtime": "process.runtime.name", "runtime_version": "process.runtime.version", "language": "telemetry.sdk.language",
	"git.repository_url": "vcs.repository.url.full", "git.commit.sha": "vcs.ref.head.revision",
}

// resourceOf returns the encoded Resource, which describes the process. It writes the names of attributes as text.
// Newer servers also accept indexes into the dictionary instead, but older ones do not.
func resourceOf(p *push.Period) []byte {
	var b []byte
	seen := make(map[string]bool)
	add := func(key string, value []byte) {
		if !seen[key] {
			seen[key] = true
			b = protobuf.AppendBytes(b, resourceAttributes, protobuf.AppendBytes(protobuf.AppendBytes(nil, attributeKey, key), attributeValue, value))
		}
	}
	add("process.pid", anyNumber(int64(p.Process.PID)))
	if p.Process.Title != "" {
		add("process.executable.name", anyText(p.Process.Title))
	}
	for _, t := range p.Tags {
		key := cmp.Or(resources[t.Key], t.Key)
		if n, err := strconv.ParseInt(t.Value, 10, 64); err == nil && key == "process.pid" {
			add(key, anyNumber(n))
		} else {
			add(key, anyText(t.Value))
		}
	}
	add("service.name", anyText(cmp.Or(p.Process.Title, "unknown_service:ruby")))
	return b
}

func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
