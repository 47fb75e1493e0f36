package push

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Facts are what ddtop has found out about a process. The method Tags makes the process's tags from them. An unknown
// fact is "" or nil.
type Facts struct {
	Process Process
	// StartTicks is the start time of the process as /proc/PID/stat shows it, in clock ticks after the boot. Host is
	// the machine's name.
	StartTicks uint64
	Host       string
	// Platform is Ruby's platform, such as "x86_64-linux". Version is ddtop's version.
	Platform, Version string
	// Given are the tags from ddtop's command line. They have priority over all other sources.
	Given Tags
	// Environment has variables of the process's environment. The method Tags ignores variables that it does not know.
	Environment map[string]string
	// Published has the tags that the process publishes about itself, for example through its tracer.
	Published Tags
	// Cgroup is the text of /proc/PID/cgroup.
	Cgroup string
}

// Tags returns the tags of a process's profiles. The tags have the same names as in Datadog's profiler for Ruby.
// Several sources can have the same tag. The priority of the sources is:
//
// - the command line
// - what ddtop itself has observed
// - the process's environment
// - what the process publishes
//
// A process cannot set the tags in seenKeys. The container's ID comes only from the cgroup. Tags leaves out a value
// that resembles a key or a password.
func (f *Facts) Tags() Tags {
	var all Tags
	add := func(key, value string) {
		value = withoutPassword(strings.TrimSpace(value))
		if LooksSecret(Tag{key, value}) { // check before clean cuts off a long value
			return
		}
		if tag, err := ParseTag(key + ":" + clean(value)); err == nil {
			all = all.With(tag.Key, tag.Value)
		}
	}
	container, pod := containerOf(f.Cgroup)
	for _, t := range f.Given {
		if t.Key != ContainerKey {
			add(t.Key, t.Value)
		}
	}
	for _, t := range (Tags{
		{ContainerKey, container}, {"pod_uid", pod}, {"host", f.Host}, {"language", "ruby"}, {"process_id", strconv.Itoa(f.Process.PID)},
		{"profiler_version", f.Version}, {"runtime", "ruby"}, {"runtime_engine", "ruby"}, {"runtime-id", f.runtimeID()},
		{"runtime_platform", f.Platform}, {"runtime_version", f.Process.RubyVersion},
	}) {
		add(t.Key, t.Value)
	}
	claim := func(key, value string) {
		if mayClaim(key, pod != "") {
			add(key, value)
		}
	}
	f.fromEnvironment(claim)
	for _, t := range f.Published {
		claim(t.Key, t.Value)
	}
	add("service", f.Process.Title)
	return all
}

// ContainerKey is the tag with the ID of a process's container. Datadog's agent adds the tags of the container with
// this ID.
const ContainerKey = "container_id"

// seenKeys are the keys of tags that identify a profile's process and machine, in the form of plainKey. ddtop observes
// their values itself. If a process could set them, its profiles could appear as profiles of another process. The list
// has every name that a destination uses for such a tag.
var seenKeys = setOf(
	"host", "hostname", "host_name", "host_id", "dd_hostname",
	"process_id", "process_pid", "pid", "process_executable_name",
	"runtime_id", "service_instance_id",
	"language", "telemetry_sdk_language", "runtime", "runtime_engine", "process_runtime_name",
	"runtime_version", "process_runtime_version", "runtime_platform", "profiler_version", "profile_seq",
	"container_id", "docker_container_id", "docker_id", "cgroup_id", "pod_uid", "pod_id", "k8s_pod_uid", "kube_pod_uid",
	"session_id", "profile_id", "pyroscope_spy", "service_name", "entity_id",
	"process_command", "process_command_line", "process_command_args", "process_executable_path", "process_parent_pid",
	"process_owner", "process_runtime_description",
)

// podKeys are keys of tags with the name of a Kubernetes pod, in the form of plainKey. ddtop cannot observe this name.
var podKeys = setOf("pod", "pod_name", "k8s_pod_name", "kube_pod_name", "kubernetes_pod_name")

// mayClaim reports whether a process may set the tag with this key itself. It may set the name of its pod only if its
// cgroup shows that it is in a pod.
func mayClaim(key string, inPod bool) bool {
	plain := plainKey(key)
	// Datadog also accepts a key with such a prefix, for example dd.internal.entity_id, which names the container
	for _, of := range []string{"datadog_", "dd_", "internal_"} {
		plain = strings.TrimPrefix(plain, of)
	}
	return !seenKeys[plain] && (inPod || !podKeys[plain])
}

// plainKey returns a key in the form in which destinations compare keys: in lower case, with "_" for all characters
// that are not letters or digits.
func plainKey(key string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key), "_")
}

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// clean makes untrusted text safe to use as a value. It removes commas, which separate tags, and control and format
// characters, which change what a person sees. It also limits the length.
func clean(value string) string {
	value = strings.Map(func(r rune) rune {
		if r == ',' || r == '\ufffd' || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(value, "_"))
	if len(value) > maxTag {
		value = strings.ToValidUTF8(value[:maxTag], "")
	}
	return value
}

// userInfo matches the beginning of a URL that contains a user or a password, up to the "@".
var userInfo = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*://)[^/]*@`)

func withoutPassword(value string) string { return userInfo.ReplaceAllString(value, "$1") }

// variables has the environment variables that set a tag. If a process has two variables for the same tag, the first
// one in this list sets it.
var variables = []struct{ variable, tag string }{
	{"DD_SERVICE", "service"}, {"DD_ENV", "env"}, {"DD_VERSION", "version"},
	{"DD_GIT_REPOSITORY_URL", "git.repository_url"}, {"DD_GIT_COMMIT_SHA", "git.commit.sha"}, {"OTEL_SERVICE_NAME", "service"},
}

// ResourceTags maps OpenTelemetry's attribute names to the keys of the tags that ddtop uses for them.
var ResourceTags = map[string]string{
	"service.name": "service", "service.version": "version", "deployment.environment": "env", "deployment.environment.name": "env",
	"host.name": "host", "service.instance.id": "runtime-id", "container.id": ContainerKey, "k8s.pod.uid": "pod_uid",
	"k8s.pod.name": "pod_name",
}

func (f *Facts) fromEnvironment(add func(key, value string)) {
	for _, v := range variables {
		add(v.tag, f.Environment[v.variable])
	}
	tags := f.Environment["DD_TAGS"]
	separated := func(r rune) bool { return r == ',' }
	if !strings.Contains(tags, ",") {
		separated = func(r rune) bool { return r == ' ' }
	}
	for _, t := range strings.FieldsFunc(tags, separated) {
		key, value, _ := strings.Cut(strings.TrimSpace(t), ":")
		add(key, value)
	}
	for t := range strings.SplitSeq(f.Environment["OTEL_RESOURCE_ATTRIBUTES"], ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(t), "=")
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		if name := ResourceTags[key]; name != "" {
			key = name
		}
		add(key, value)
	}
}

// uuid matches a UUID in the form in which tracers publish the tag runtime-id.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// runtimeID returns an ID that no other process on any machine has. If the process's tracer publishes an ID, runtimeID
// returns it, so that profiles and traces have the same ID. runtimeID ignores an ID in the environment, because forked
// processes share the environment. If no ID is published, runtimeID computes one from host, PID and start time. So
// every run of ddtop gets the same ID.
func (f *Facts) runtimeID() string {
	if id := f.Published.Get("runtime-id"); uuid.MatchString(id) {
		return id
	}
	return uuidText(uuidOf("ddtop %s %d %d", f.Host, f.Process.PID, f.StartTicks))
}

var (
	containerID = regexp.MustCompile(`[0-9a-f]{64}|[0-9a-f]{32}-[0-9]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){4,5}$`)
	podUID      = regexp.MustCompile(`pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})`)
)

// containerOf finds the IDs of the container and of the pod in the text of /proc/PID/cgroup.
func containerOf(cgroup string) (container, pod string) {
	for line := range strings.Lines(cgroup) {
		line = strings.TrimSuffix(line, "\n")
		if m := podUID.FindStringSubmatch(line); m != nil && pod == "" {
			pod = strings.ReplaceAll(m[1], "_", "-")
		}
		last := strings.TrimSuffix(line[strings.LastIndexByte(line, '/')+1:], ".scope")
		if id := containerID.FindString(last); id != "" && container == "" {
			container = id
		}
	}
	return container, pod
}
