// Package datadog sends profiles to Datadog's agent, or directly to Datadog. It sends the same requests as Datadog's
// own profiler for Ruby. These are POST /profiling/v1/input with event.json (version 4), profile.pprof,
// code-provenance.json and metrics.json.
package datadog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/push"
)

const (
	// agentPort is the port on which Datadog's agents listen. agentPath is the path in the URL if profiles go to an
	// agent. intakePath is the path if they go to Datadog itself.
	agentPort  = "8126"
	agentPath  = "/profiling/v1/input"
	intakePath = "/api/v2/profile"
	// origin is the name of the sender in each request.
	origin = "ddtop"
	// timeFormat is the format of times in event.json.
	timeFormat = "2006-01-02T15:04:05.000000000Z"
)

const (
	profileName    = "profile.pprof"
	provenanceName = "code-provenance.json"
	metricsName    = "metrics.json"
)

// sites are the names of Datadog's sites. Profiles for a site go to the host whose name is intakeHost followed by the
// site's name.
var sites = map[string]bool{
	"datadoghq.com": true, "us3.datadoghq.com": true, "us5.datadoghq.com": true, "datadoghq.eu": true, "ap1.datadoghq.com": true,
	"ap2.datadoghq.com": true, "ddog-gov.com": true,
}

// containerHeader is the HTTP header with the container's ID. The agent uses it to add the container's tags.
const containerHeader = "Datadog-Container-ID"

// intakeHost is the beginning of the name of Datadog's host for profiles. The name of the site follows, such as
// datadoghq.eu.
const intakeHost = "intake.profile."

// Intake is the push.Destination that sends profiles to an agent or to Datadog itself.
type Intake struct {
	name    string // the given URL
	to      string // the URL that payloads are sent to
	key     string // DD_API_KEY; empty for an agent, because the agent has its own key
	version string
	web     *push.Web
}

// errNoKey is returned if profiles go to Datadog directly, but there is no key.
var errNoKey = errors.New("to send without an agent the environment has to have DD_API_KEY")

// New returns the destination of a URL. Three kinds of URLs are possible:
//
//   - datadog://HOST:8126 is an agent.
//   - unix:///PATH is an agent that listens on a unix socket.
//   - datadog+https://SITE is Datadog itself and needs a key. SITE is a name such as datadoghq.eu, or the site's host
//     intake.profile.datadoghq.eu.
//
// version is ddtop's version.
func New(u *url.URL, key, version string) (*Intake, error) {
	d := &Intake{version: version}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("it takes a host and a port alone; the key comes from the environment, DD_API_KEY")
	}
	socket := ""
	switch u.Scheme {
	case "unix":
		if u.Host != "" || !path.IsAbs(u.Path) {
			return nil, errors.New("a socket is named by its whole path, as in unix:///var/run/datadog/apm.socket")
		}
		socket = path.Clean(u.Path)
		d.name, d.to = "unix://"+socket, "http://unix"+agentPath
	case "datadog":
		if u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
			return nil, errors.New("it takes a host and a port, as in datadog://127.0.0.1:8126")
		}
		port := u.Port()
		if port == "" {
			port = agentPort
		}
		host := net.JoinHostPort(u.Hostname(), port)
		d.name, d.to = "datadog://"+host, "http://"+host+agentPath
	case "datadog+https":
		if u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
			return nil, errors.New("it takes a site or a host, as in datadog+https://datadoghq.eu or datadog+https://intake.profile.datadoghq.eu")
		}
		if key == "" {
			return nil, errNoKey
		}
		host := u.Host
		if sites[strings.ToLower(host)] {
			host = intakeHost + strings.ToLower(host)
		}
		d.name, d.to, d.key = "datadog+https://"+host, "https://"+host+intakePath, key
	default:
		return nil, fmt.Errorf("%s:// is none of Datadog's", u.Scheme)
	}
	d.web = push.NewWeb(socket)
	return d, nil
}

// String returns the destination's URL.
func (d *Intake) String() string { return d.name }

type event struct {
	Attachments []string `json:"attachments"`
	Tags        string   `json:"tags_profiler"`
	Start       string   `json:"start"`
	End         string   `json:"end"`
	Family      string   `json:"family"`
	Version     string   `json:"version"`
	// EndpointCounts is null in JSON if no request ended in the period.
	EndpointCounts map[string]int64 `json:"endpoint_counts"`
	Internal       map[string]any   `json:"internal"`
	Info           map[string]any   `json:"info"`
}

type attachment struct {
	name string
	data []byte
}

// Encode makes the body of the request for a profile: a multipart body with several files.
func (d *Intake) Encode(p *push.Period) (push.Payload, error) {
	parsed, err := profile.ParseData(p.Pprof)
	if err != nil {
		return push.Payload{}, err
	}
	provenance, err := json.Marshal(provenanceOf(parsed, p.Process.RubyVersion))
	if err != nil {
		return push.Payload{}, err
	}
	metrics, err := json.Marshal([][]any{{"ruby_global_lock_wait_time_total", total(parsed, "gvl-wait")}})
	if err != nil {
		return push.Payload{}, err
	}
	files := []attachment{{provenanceName, provenance}, {metricsName, metrics}, {profileName, p.Pprof}}
	e := event{
		Tags: tagsOf(p), Start: stamp(p.From), End: stamp(p.To), Family: "ruby", Version: "4", Internal: map[string]any{"ddtop_version": d.version},
		Info: d.infoOf(p), EndpointCounts: p.Ended,
	}
	for _, f := range files {
		e.Attachments = append(e.Attachments, f.name)
	}
	eventJSON, err := json.Marshal(e)
	if err != nil {
		return push.Payload{}, err
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	if err := addFile(form, "event", "event.json", "application/json", eventJSON); err != nil {
		return push.Payload{}, err
	}
	for _, f := range files {
		if err := addFile(form, f.name, f.name, "application/octet-stream", f.data); err != nil {
			return push.Payload{}, err
		}
	}
	if err := form.Close(); err != nil {
		return push.Payload{}, err
	}
	payload := push.Payload{ContentType: form.FormDataContentType(), Body: b.Bytes()}
	if id := p.Tags.Get(push.ContainerKey); id != "" {
		payload.Header = map[string]string{containerHeader: id}
	}
	return payload, nil
}

// infoOf returns the field Info of event.json, with the same keys as Datadog's own profiler. It leaves out keys whose
// values ddtop cannot see from outside of the process.
func (d *Intake) infoOf(p *push.Period) map[string]any {
	part := func(pairs ...string) map[string]any {
		out := make(map[string]any)
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i+1] != "" {
				out[pairs[i]] = pairs[i+1]
			}
		}
		return out
	}
	started := ""
	if !p.Process.StartedAt.IsZero() {
		started = p.Process.StartedAt.UTC().Format(time.RFC3339)
	}
	get := p.Tags.Get
	return map[string]any{
		"platform":    part("container_id", get(push.ContainerKey), "hostname", get("host"), "kernel_name", "Linux"),
		"runtime":     part("engine", "ruby", "version", p.Process.RubyVersion, "platform", get("runtime_platform")),
		"application": part("start_time", started, "env", get("env"), "service", get("service"), "version", get("version")),
		"profiler":    part("name", origin, "version", d.version),
	}
}

func addFile(form *multipart.Writer, field, name, contentType string, data []byte) error {
	w, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename=%q`, field, name)}, "Content-Type": {contentType},
	})
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

func stamp(t time.Time) string { return t.UTC().Format(timeFormat) }

// tagsOf returns the tags of a profile and its sequence number as text, separated by commas.
func tagsOf(p *push.Period) string {
	var all []string
	for _, t := range p.Tags {
		all = append(all, t.Key+":"+t.Value)
	}
	return strings.Join(append(all, "profile_seq:"+strconv.Itoa(p.Seq)), ",")
}

// total returns the sum of all values of one sample type, such as cpu-time. It is zero if the profile has no values of
// this type.
func total(p *profile.Profile, name string) (sum int64) {
	for i, t := range p.SampleType {
		if t.Type == name {
			for _, s := range p.Sample {
				sum += s.Value[i]
			}
		}
	}
	return sum
}

// Send posts a payload. It sends only headers that Encode can have made. Another user may have put the payload's file
// into the spool, with other headers.
func (d *Intake) Send(ctx context.Context, p *push.Payload) error {
	if kind, _, err := mime.ParseMediaType(p.ContentType); err != nil || kind != "multipart/form-data" {
		return &push.RefusedError{Err: fmt.Errorf("its type is %q, which is none of ddtop's for Datadog", p.ContentType)}
	}
	header := http.Header{"Content-Type": {p.ContentType}, "User-Agent": {origin + "/" + d.version}}
	header.Set("DD-EVP-ORIGIN", origin)
	header.Set("DD-EVP-ORIGIN-VERSION", d.version)
	if id := p.Header[containerHeader]; id != "" {
		header.Set(containerHeader, id)
	}
	if d.key != "" {
		header.Set("DD-API-KEY", d.key)
	}
	_, err := d.web.Post(ctx, d.to, header, p.Body)
	return err
}
