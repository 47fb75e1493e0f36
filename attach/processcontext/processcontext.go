// Package processcontext reads what a process publishes about itself for other processes: its service, environment,
// version and the like. The process publishes them in OpenTelemetry's process context, or in the file of Datadog's
// tracers (docs/internals/context.md). The process can publish anything, so its data is not trusted.
package processcontext

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/sorting"
)

const (
	// maxText bounds the length of a name or value, in bytes. Longer texts are left out.
	maxText = 512
	// maxAttributes bounds the number of attributes of a process. maxKeys bounds the number of names in
	// ThreadSchema.Keys. It is 256, because a thread's record refers to a name by an index of one byte.
	maxAttributes, maxKeys = 128, 256
	// maxTracerInfo bounds the size of the file of Datadog's tracers, in bytes.
	maxTracerInfo = 64 << 10
)

// Context is what a process publishes about itself. The zero value means that it publishes nothing. All texts are
// UTF-8 without control characters, of at most 512 bytes. A missing text is "".
type Context struct {
	// Service is service.name, Env is deployment.environment.name, and Version is service.version.
	Service, Env, Version string
	// RuntimeID is service.instance.id, which Datadog calls runtime-id. Each process has a different value.
	RuntimeID string
	// Host is host.name and ContainerID is container.id, as the process knows them.
	Host, ContainerID string
	// Tracer is the library that published the context (telemetry.sdk.name), with its version and language.
	Tracer, TracerVersion, TracerLanguage string
	// Tags are Datadog's process tags. Each has the form "name:value".
	Tags []string
	// Attributes are all attributes with a text as their value, sorted by name. They include the fields above.
	Attributes []Attribute
	// Threads describes how threads publish their spans. It is the zero value if they do not.
	Threads ThreadSchema
	// Source says where the context was found.
	Source Source
	// PublishedNS is the time at which the process published the context, CLOCK_BOOTTIME in ns. It changes when the
	// process publishes again. It is zero if unknown.
	PublishedNS uint64
}

// Attribute is a name and its value.
type Attribute struct{ Key, Value string }

// ThreadSchema describes how threads publish their spans. Version is threadlocal.schema_version. A thread's record
// refers to an attribute by a number n, and Keys[n] is the attribute's name.
type ThreadSchema struct {
	Version string
	Keys    []string
}

// Source is a place where a Context can be found.
type Source uint8

// The sources of a Context.
const (
	// None means that nothing was found.
	None Source = iota
	// OpenTelemetry is the mapping OTEL_CTX.
	OpenTelemetry
	// Datadog is the file datadog-tracer-info of Datadog's tracers.
	Datadog
)

// String names the source.
func (s Source) String() string {
	switch s {
	case OpenTelemetry:
		return "OTEL_CTX"
	case Datadog:
		return "datadog-tracer-info"
	}
	return "none"
}

// errNot means that bytes do not have the expected format.
var errNot = errors.New("it can't be understood")

// Read reads what a process publishes about itself. It returns the zero Context if the process publishes nothing, or in
// an unknown format. It lists the process's mappings and descriptors, which takes a millisecond or more for large
// programs. So call it at most every ten seconds. This is often enough, because a program only publishes again when it
// is configured, and after a fork. An error means that the process cannot be read: attach.ErrGone, attach.ErrPermission
// or the kernel's error.
func Read(p *attach.Process) (Context, error) {
	mappings, err := p.Maps()
	if err != nil {
		return Context{}, err
	}
	c, err := ReadMapped(p, mappings)
	if err != nil || c.Source != None {
		return c, err
	}
	return readTracerInfo(p)
}

// tracerInfoFile is the beginning of the file name that Datadog's tracers use.
const tracerInfoFile = "datadog-tracer-info-"

// readTracerInfo reads the newest tracer file that belongs to the process. A forked process may have only its parent's
// file, because it has not configured its tracer again. All values in the parent's file are right for the child, too,
// except the runtime-id.
func readTracerInfo(p *attach.Process) (Context, error) {
	files, err := p.MemoryFiles(tracerInfoFile, maxTracerInfo)
	if err != nil {
		return Context{}, err
	}
	sorting.StableBy(files, func(a, b attach.MemoryFile) int {
		if a.Inherited != b.Inherited {
			if a.Inherited {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.FD, a.FD)
	})
	for _, f := range files {
		c, err := parseTracerInfo(f.Content)
		if err != nil {
			continue
		}
		if f.Inherited {
			c.RuntimeID = ""
			c.Attributes = slices.DeleteFunc(c.Attributes, func(a Attribute) bool { return a.Key == keyRuntimeID })
		}
		return c, nil
	}
	return Context{}, nil
}

// These are the names of attributes that become fields of Context. The last two become the field Threads.
const (
	keyService     = "service.name"
	keyEnv         = "deployment.environment.name"
	keyOldEnv      = "deployment.environment" // the name before version 1.27 of the semantic conventions
	keyVersion     = "service.version"
	keyRuntimeID   = "service.instance.id"
	keyHost        = "host.name"
	keyContainer   = "container.id"
	keyTracer      = "telemetry.sdk.name"
	keyTracerVer   = "telemetry.sdk.version"
	keyTracerLang  = "telemetry.sdk.language"
	keyTags        = "datadog.process_tags"
	keyThreads     = "threadlocal.schema_version"
	keyThreadNames = "threadlocal.attribute_key_map"
)

// set adds an attribute whose value is text. If a name occurs several times, the last value counts.
func (c *Context) set(key, value string) {
	if key = clean(key); key == "" || value == "" {
		return
	}
	if key == keyTags {
		c.setTags(value)
		return
	}
	if value = clean(value); value == "" {
		return
	}
	switch key {
	case keyService:
		c.Service = value
	case keyEnv:
		c.Env = value
	case keyOldEnv:
		c.Env = cmp.Or(c.Env, value)
	case keyVersion:
		c.Version = value
	case keyRuntimeID:
		c.RuntimeID = value
	case keyHost:
		c.Host = value
	case keyContainer:
		c.ContainerID = value
	case keyTracer:
		c.Tracer = value
	case keyTracerVer:
		c.TracerVersion = value
	case keyTracerLang:
		c.TracerLanguage = value
	case keyThreads:
		c.Threads.Version = value
		return // do not list it as an attribute: the version of the format says nothing about the program
	}
	at, found := slices.BinarySearchFunc(c.Attributes, key, func(a Attribute, key string) int { return strings.Compare(a.Key, key) })
	switch {
	case found:
		c.Attributes[at].Value = value
	case len(c.Attributes) < maxAttributes:
		c.Attributes = slices.Insert(c.Attributes, at, Attribute{key, value})
	}
}

// setTags sets Datadog's process tags from a text like "name:value,name:value".
func (c *Context) setTags(value string) {
	c.Tags = nil
	for tag := range strings.SplitSeq(value, ",") {
		name, _, ok := strings.Cut(tag, ":")
		if tag = clean(tag); ok && name != "" && tag != "" && len(c.Tags) < maxAttributes {
			c.Tags = append(c.Tags, tag)
		}
	}
}

// clean returns a text that is safe to display. It returns "" if the text is too long or not valid.
func clean(s string) string {
	if len(s) > maxText || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
		return ""
	}
	return strings.TrimSpace(s)
}
