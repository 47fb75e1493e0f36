// Package otlp sends profiles and alerts to a collector or another server. It uses OTLP, OpenTelemetry's protocol, over
// HTTP or gRPC. The schema is opentelemetry.proto.collector.profiles.v1development.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/protobuf"
)

const (
	// httpPath and grpcProcedure are the paths to which profiles are sent. httpPort and grpcPort are used if the URL
	// has no port.
	httpPath      = "/v1development/profiles"
	grpcProcedure = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
	httpPort      = "4318"
	grpcPort      = "4317"
	// versionHeader is the HTTP header with the version of OTLP's schema for profiles. The schema is in development,
	// and its versions are incompatible with each other.
	versionHeader = "Otlp-Profiles-Development-Version"
	version       = "1"
)

// Collector is a push.Destination that sends to an OTLP server.
type Collector struct {
	name, own string
	header    http.Header
	// parts and missing are texts for error messages. A server can accept a request, but refuse a part of its data.
	// parts is the word for such data. missing explains why a server may accept no data of this kind at all.
	parts, missing string
	// web, root and to are used for HTTP, not for gRPC. root is the URL without the path that OTLP prescribes.
	web      *push.Web
	root, to string
	// These are set for gRPC.
	grpc            *push.GRPC
	host, procedure string
}

// New returns the destination for a URL: otlp+http://HOST:4318, otlp+https://HOST, otlp+grpc://HOST:4317 or
// otlp+grpcs://HOST. With HTTP, the URL may have a path, and New adds OTLP's path to it. headers is the value of
// OTEL_EXPORTER_OTLP_HEADERS, and own is ddtop's version.
func New(u *url.URL, headers, own string) (*Collector, error) {
	d := &Collector{own: own, parts: "sample types of a profile", missing: noProfiles, procedure: grpcProcedure}
	if u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("it takes a host and a port, as in otlp+http://127.0.0.1:4318; what a server asks for to be let in comes from the environment, OTEL_EXPORTER_OTLP_HEADERS")
	}
	var err error
	if d.header, err = push.ParseHeaders(headers); err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	d.header.Set("User-Agent", "ddtop/"+own)
	d.header.Set(versionHeader, version)
	host := func(port string) string {
		if u.Port() == "" {
			return net.JoinHostPort(u.Hostname(), port)
		}
		return u.Host
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	switch u.Scheme {
	case "otlp+http", "otlp+https":
		scheme := strings.TrimPrefix(u.Scheme, "otlp+")
		to := u.Host
		if scheme == "http" {
			to = host(httpPort)
		}
		path = strings.TrimSuffix(path, httpPath)
		d.web, d.root, d.name = push.NewWeb(""), scheme+"://"+to+path, u.Scheme+"://"+to+path
		d.to = d.root + httpPath
	case "otlp+grpc", "otlp+grpcs":
		if path != "" {
			return nil, errors.New("gRPC has no path")
		}
		d.grpc, d.host = push.NewGRPC(u.Scheme == "otlp+grpcs"), host(grpcPort)
		d.name = u.Scheme + "://" + d.host
	default:
		return nil, fmt.Errorf("%s:// is none of OTLP's", u.Scheme)
	}
	return d, nil
}

// String returns the URL.
func (d *Collector) String() string { return d.name }

// contentType is the Content-Type of all requests.
const contentType = "application/x-protobuf"

// Encode returns a profile of a process as a compressed OTLP request.
func (d *Collector) Encode(p *push.Period) (push.Payload, error) {
	plain, err := request(p, d.own)
	if err != nil {
		return push.Payload{}, err
	}
	body, err := compress(plain)
	return push.Payload{ContentType: contentType, Body: body}, err
}

// Send sends a payload. If the server returns a typical error, Send adds an explanation to it.
func (d *Collector) Send(ctx context.Context, p *push.Payload) error {
	var answer []byte
	var err error
	if d.grpc != nil {
		answer, err = d.grpc.Call(ctx, d.host, d.procedure, d.header, p.Body)
	} else {
		header := d.header.Clone()
		header.Set("Content-Type", contentType)
		header.Set("Content-Encoding", "gzip")
		answer, err = d.web.Post(ctx, d.to, header, p.Body)
	}
	if err != nil {
		return d.explain(err)
	}
	return d.partial(answer)
}

// noProfiles is the explanation that ddtop adds if a server does not accept profiles.
const noProfiles = "it takes no profiles by OTLP: a collector needs --feature-gates=service.profilesSupport and a pipeline \"profiles\" with the receiver otlp"

func (d *Collector) explain(err error) error {
	var status *push.StatusError
	if errors.As(err, &status) {
		switch status.Status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return &push.RefusedError{Err: fmt.Errorf("%w; %s", status, d.missing)}
		case http.StatusUnauthorized, http.StatusForbidden:
			return &push.RefusedError{Err: fmt.Errorf("%w; %s", status, letIn)}
		// OTLP's rules forbid a retry after this status. It means that the destination behind the server does not
		// accept the data.
		case http.StatusInternalServerError:
			return &push.RefusedError{Err: status}
		}
	}
	var told *push.GRPCError
	if errors.As(err, &told) {
		switch told.Code {
		case push.GRPCUnimplemented:
			return &push.RefusedError{Err: fmt.Errorf("%w; %s", told, d.missing)}
		case push.GRPCUnauthenticated, push.GRPCPermissionDenied:
			return &push.RefusedError{Err: fmt.Errorf("%w; %s", told, letIn)}
		}
	}
	return err
}

const letIn = "what it asks for comes from the environment, OTEL_EXPORTER_OTLP_HEADERS"

// Numbers of fields in ExportProfilesServiceResponse and ExportProfilesPartialSuccess.
const (
	responsePartial protobuf.Field = 1
	partialRejected protobuf.Field = 1
	partialMessage  protobuf.Field = 2
)

// maxMessage limits how much of a server's message is logged, in bytes.
const maxMessage = 200

// partial returns an error if the server accepted only a part of the request's data. OTLP does not allow a retry in
// this case, so the error is final.
func (d *Collector) partial(answer []byte) error {
	rejected, message := uint64(0), ""
	var inner error
	err := protobuf.Each(answer, func(f protobuf.Field, _ uint64, data []byte) {
		if f != responsePartial {
			return
		}
		inner = protobuf.Each(data, func(f protobuf.Field, n uint64, data []byte) {
			switch f {
			case partialRejected:
				rejected = n
			case partialMessage:
				message = push.Conceal(string(data), d.header)
				message = message[:min(len(message), maxMessage)]
			}
		})
	})
	switch {
	case (err != nil || inner != nil) && len(answer) > 0 && answer[0] == '{':
		return &push.RemarkError{Err: errors.New("it answers in JSON, which is not looked at")}
	case err != nil || inner != nil:
		return errors.New("its answer is none of OTLP's: is it a collector?")
	case rejected > 0:
		return &push.RefusedError{Err: fmt.Errorf("it has not taken %d of the %s: %q", rejected, d.parts, message)}
	case message != "":
		return &push.RemarkError{Err: fmt.Errorf("it says: %q", message)}
	}
	return nil
}
