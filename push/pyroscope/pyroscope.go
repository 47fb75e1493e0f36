// Package pyroscope sends profiles to Pyroscope or to Grafana Alloy. It calls push.v1.PusherService/Push by the Connect
// protocol. The request has the pprof file unchanged, and labels that describe the process.
package pyroscope

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/protobuf"
)

const (
	// pushPath is the path of the procedure that ddtop calls. It is appended to the URL's own path.
	pushPath     = "/push.v1.PusherService/Push"
	tenantHeader = "X-Scope-OrgID"
	// profileName is the first part of a profile type's name in Pyroscope, as in
	// ruby:wall-time:nanoseconds:wall-time:nanoseconds.
	profileName = "ruby"
	// contentType is the type of every request.
	contentType = "application/proto"
	// maxLabels limits the number of labels of a profile, including the fixed labels that every profile has. A server
	// refuses a profile with more than 30 labels.
	maxLabels = 28
	port      = "4040"
)

const (
	fieldSeries    protobuf.Field = 1 // a field of PushRequest
	fieldLabels    protobuf.Field = 1 // a field of RawProfileSeries
	fieldSamples   protobuf.Field = 2
	fieldName      protobuf.Field = 1 // a field of types.v1.LabelPair
	fieldValue     protobuf.Field = 2
	fieldRawSample protobuf.Field = 1 // a field of RawSample
	fieldID        protobuf.Field = 2
)

// Access holds the credentials of the sender. Each of them may be empty.
type Access struct{ User, Password, Tenant string }

// Server is a push.Destination that sends to Pyroscope or Grafana Alloy.
type Server struct {
	name, to, version string
	access            Access
	web               *push.Web
}

// New returns the destination of a URL: pyroscope+http://HOST:4040 or pyroscope+https://HOST. The URL may have a path,
// and New adds Pyroscope's path to it. The URL may also have a user, a password and a parameter tenant. They override
// the values in environment. version is ddtop's version.
func New(u *url.URL, environment Access, version string) (*Server, error) {
	d := &Server{version: version, access: environment, web: push.NewWeb("")}
	scheme := strings.TrimPrefix(u.Scheme, "pyroscope+")
	host := u.Host
	switch {
	case scheme != "http" && scheme != "https" || scheme == u.Scheme:
		return nil, errors.New("it is pyroscope+http:// or pyroscope+https://")
	case u.Hostname() == "" || u.Fragment != "":
		return nil, errors.New("it takes a host, as in pyroscope+http://127.0.0.1:4040")
	case u.Port() == "" && scheme == "http":
		host = net.JoinHostPort(u.Hostname(), port)
	}
	if u.User != nil {
		d.access.User = u.User.Username()
		d.access.Password, _ = u.User.Password()
	}
	for key, values := range u.Query() {
		if key != "tenant" {
			return nil, fmt.Errorf("parameter %s: there is tenant alone", key)
		}
		d.access.Tenant = values[len(values)-1]
	}
	if strings.ContainsFunc(d.access.Tenant, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the tenant holds what a header can't")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	d.name, d.to = u.Scheme+"://"+host+path, scheme+"://"+host+path+pushPath
	if t := d.access.Tenant; t != "" && u.RawQuery != "" {
		d.name += "?tenant=" + url.QueryEscape(t)
	}
	return d, nil
}

// String returns the URL without user and password.
func (d *Server) String() string { return d.name }

// Encode makes a PushRequest with the profile of a period.
func (d *Server) Encode(p *push.Period) (push.Payload, error) {
	var series []byte
	for _, t := range labelsOf(p) {
		pair := protobuf.AppendBytes(protobuf.AppendBytes(nil, fieldName, t.Key), fieldValue, t.Value)
		series = protobuf.AppendBytes(series, fieldLabels, pair)
	}
	sample := protobuf.AppendBytes(nil, fieldRawSample, p.Pprof)
	sample = protobuf.AppendBytes(sample, fieldID, p.ID())
	series = protobuf.AppendBytes(series, fieldSamples, sample)
	return push.Payload{ContentType: contentType, Body: protobuf.AppendBytes(nil, fieldSeries, series)}, nil
}

// labelsOf returns a profile's labels, sorted by name. In a name, "_" replaces each character that Pyroscope does not
// allow.
func labelsOf(p *push.Period) push.Tags {
	service := cmp.Or(p.Tags.Get("service"), p.Process.Title, "ruby")
	session := fmt.Sprintf("%.8x", sha256.Sum256([]byte(p.Tags.Get("runtime-id"))))
	// __session_id__ is a label that distinguishes processes whose other labels are all the same. Pyroscope does not
	// show it.
	labels := push.Tags{{Key: "__name__", Value: profileName}, {Key: "__session_id__", Value: session}, {Key: "service_name", Value: service}, {Key: "pyroscope_spy", Value: "ddtop"}}
	for _, t := range p.Tags {
		if t.Key == "service" || t.Key == "runtime-id" || len(labels) >= maxLabels {
			continue
		}
		labels = labels.With(labelName(t.Key), t.Value)
	}
	sorting.By(labels, func(a, b push.Tag) int { return cmp.Compare(a.Key, b.Key) })
	return labels
}

// labelName makes the name of a label from the key of a tag: letters, digits and "_". It does not begin with "__",
// because such names are reserved for the server.
func labelName(key string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, key)
	if name = strings.TrimLeft(name, "_"); name == "" || name[0] <= '9' {
		name = "tag_" + name
	}
	return name
}

// Send posts a payload.
func (d *Server) Send(ctx context.Context, p *push.Payload) error {
	header := http.Header{"Content-Type": {contentType}, "Connect-Protocol-Version": {"1"}, "User-Agent": {"ddtop/" + d.version}}
	if d.access.User != "" || d.access.Password != "" {
		header.Set("Authorization", push.BasicAuth(d.access.User, d.access.Password))
	}
	if d.access.Tenant != "" {
		header.Set(tenantHeader, d.access.Tenant)
	}
	answer, err := d.web.Post(ctx, d.to, header, p.Body)
	var status *push.StatusError
	if errors.As(err, &status) {
		switch status.Status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return &push.RefusedError{Err: fmt.Errorf("%w; it has no %s: is it Pyroscope?", status, pushPath)}
		case http.StatusUnauthorized, http.StatusForbidden:
			return &push.RefusedError{Err: fmt.Errorf("%w; user and password are those of the URL, or PYROSCOPE_BASIC_AUTH_USER and PYROSCOPE_BASIC_AUTH_PASSWORD", status)}
		}
	}
	if err == nil && protobuf.Each(answer, func(protobuf.Field, uint64, []byte) {}) != nil {
		return errors.New("its answer is none of the Connect protocol's: is it Pyroscope?")
	}
	return err
}
