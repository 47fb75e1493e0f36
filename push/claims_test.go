package push_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/datadog"
	"github.com/ddtop/ddtop/push/otlp"
	"github.com/ddtop/ddtop/push/protobuf"
	"github.com/ddtop/ddtop/push/pyroscope"
)

// lies are keys of tags that identify a process or a machine, so a process must not set them itself. The list has all
// spellings of each key that a destination accepts.
var lies = []string{
	"container_id", "container-id", "Container_ID", "container.id", "process_id", "process.pid", "PID", "host",
	"HOST", "hostname", "host.name", "pod", "pod_name", "k8s.pod.name", "kube_pod_name", "pod_uid", "k8s.pod.uid",
	"runtime-id", "runtime_id", "service.instance.id", "language", "runtime", "runtime_version",
	"process.runtime.version", "runtime_platform", "profiler_version", "profile_seq", "process.executable.name",
	"telemetry.sdk.language", "_host", "host.", "entity_id", "dd.internal.entity_id", "datadog.container_id",
	"process.command_line", "process.executable.path",
}

// lie is the value that a test gives to all keys in the list lies.
const lie = "evil-claim"

// claimed returns the facts about a process that tries to set all tags in the list lies. The map has an entry for each
// way in which a process can set tags.
func claimed() map[string]push.Facts {
	var dd, otel []string
	var published push.Tags
	for _, key := range lies {
		dd, otel = append(dd, key+":"+lie), append(otel, key+"="+lie)
		name := key
		if tag := push.ResourceTags[key]; tag != "" {
			name = tag
		}
		published = published.With(name, lie)
	}
	return map[string]push.Facts{
		"DD_TAGS":                  {Environment: map[string]string{"DD_TAGS": strings.Join(dd, ","), "DD_HOSTNAME": lie}},
		"DD_TAGS with spaces":      {Environment: map[string]string{"DD_TAGS": strings.Join(dd, " ")}},
		"OTEL_RESOURCE_ATTRIBUTES": {Environment: map[string]string{"OTEL_RESOURCE_ATTRIBUTES": strings.Join(otel, ",")}},
		"published":                {Published: published},
	}
}

// sent returns what each destination would get for a process with these tags, as text.
func sent(t *testing.T, tags push.Tags) map[string]string {
	t.Helper()
	p := numbered(t, 0)
	p.Tags = tags
	out := make(map[string]string)
	for _, to := range []string{"datadog://127.0.0.1:1", "pyroscope+http://127.0.0.1:1", "otlp+http://127.0.0.1:1"} {
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		var d push.Destination
		switch u.Scheme {
		case "datadog":
			d, err = datadog.New(u, "", "0.1.0")
		case "pyroscope+http":
			d, err = pyroscope.New(u, pyroscope.Access{}, "0.1.0")
		default:
			d, err = otlp.New(u, "", "0.1.0")
		}
		if err != nil {
			t.Fatal(err)
		}
		payload, err := d.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		body := payload.Body
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		out[u.Scheme] = string(body) + payload.Header["Datadog-Container-ID"]
	}
	return out
}

// TestSeenComesFirst: ddtop trusts its own observation more than a process's tags. A process cannot make its profiles
// appear as profiles of another process, container, pod or machine.
func TestSeenComesFirst(t *testing.T) {
	id := strings.Repeat("ab", 32)
	const pod = "01234567-89ab-cdef-0123-456789abcdef"
	for _, cgroup := range []string{
		"", "0::/system.slice/puma.service\n",
		"0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice/cri-containerd-" + id + ".scope\n",
	} {
		for way, f := range claimed() {
			f.Process, f.Host, f.StartTicks = push.Process{PID: 4242, Title: "puma", RubyVersion: "3.4.1"}, "web-1", 5
			f.Version, f.Platform, f.Cgroup = "0.1.0", "x86_64-linux", cgroup
			tags := f.Tags()
			want := map[string]string{
				"host": "web-1", "process_id": "4242", "language": "ruby", "runtime": "ruby", "runtime_version": "3.4.1",
				"runtime_platform": "x86_64-linux", "profiler_version": "0.1.0", "service": "puma", "container_id": "", "pod_uid": "",
			}
			isPod := strings.Contains(cgroup, "kubepods")
			if isPod {
				want["container_id"], want["pod_uid"] = id, pod
			}
			for _, key := range slices.Sorted(maps.Keys(want)) {
				if got := tags.Get(key); got != want[key] {
					t.Errorf("%s, cgroup %q: %s is %q, want %q", way, cgroup, key, got, want[key])
				}
			}
			if got := tags.Get("runtime-id"); !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(got) {
				t.Errorf("%s: runtime-id is %q", way, got)
			}
			if isPod { // ddtop cannot see the name of a pod, so a process in a pod may set it
				tags = slices.DeleteFunc(tags, func(t push.Tag) bool { return strings.Contains(t.Key, "pod") && t.Key != "pod_uid" })
			}
			for to, text := range sent(t, tags) {
				if strings.Contains(text, lie) {
					t.Errorf("%s: %s gets %q", way, to, tags)
				}
				if isPod && !strings.Contains(text, id) {
					t.Errorf("%s: %s does not get the container", way, to)
				}
			}
		}
	}
}

// TestPublishedRuntimeID: the tag runtime-id connects a profile with traces. Its value is the ID that the process's
// tracer has published. The variable DD_TAGS cannot change it.
func TestPublishedRuntimeID(t *testing.T) {
	const id = "11111111-2222-3333-4444-555555555555"
	f := push.Facts{Process: push.Process{PID: 1}, Published: push.Tags{{Key: "runtime-id", Value: id}}}
	f.Environment = map[string]string{"DD_TAGS": "runtime-id:22222222-2222-3333-4444-555555555555"}
	if got := f.Tags().Get("runtime-id"); got != id {
		t.Errorf("the tracer publishes %s, the tag is %q", id, got)
	}
}

// TestContainerOfTheCgroup: ddtop takes the container's ID only from the process's cgroup. Not even a tag on the
// command line can set it.
func TestContainerOfTheCgroup(t *testing.T) {
	f := push.Facts{Given: push.Tags{{Key: "container_id", Value: strings.Repeat("cd", 32)}}}
	if got := f.Tags().Get("container_id"); got != "" {
		t.Errorf("container_id is %q for a process in no container", got)
	}
}

// TestOTLPNamesTheProcess: an OTLP profile has the name and the ID of the process as ddtop itself has read them. Tags
// cannot change them.
func TestOTLPNamesTheProcess(t *testing.T) {
	text := sent(t, push.Tags{{Key: "process_id", Value: "99"}, {Key: "process.executable.name", Value: lie}})["otlp+http"]
	if strings.Contains(text, lie) {
		t.Error("the program is named by a tag")
	}
	if err := protobuf.Each([]byte(text), func(protobuf.Field, uint64, []byte) {}); err != nil {
		t.Error(err)
	}
}
