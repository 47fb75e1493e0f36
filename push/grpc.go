package push

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ddtop/ddtop/push/protobuf"
)

// GRPCCode is the status code of a gRPC call.
type GRPCCode int

// The status codes that ddtop uses by name.
const (
	GRPCDeadlineExceeded  GRPCCode = 4
	GRPCPermissionDenied  GRPCCode = 7
	GRPCResourceExhausted GRPCCode = 8
	GRPCAborted           GRPCCode = 10
	GRPCOutOfRange        GRPCCode = 11
	GRPCUnimplemented     GRPCCode = 12
	GRPCUnavailable       GRPCCode = 14
	GRPCDataLoss          GRPCCode = 15
	GRPCUnauthenticated   GRPCCode = 16
)

var grpcCodes = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// String returns gRPC's name of the code.
func (c GRPCCode) String() string {
	if c >= 0 && int(c) < len(grpcCodes) {
		return grpcCodes[c]
	}
	return "code " + strconv.Itoa(int(c))
}

// again reports whether another try could succeed, by the rules of OTLP. after is the pause that the server requests.
// It is zero if the server requests none. For GRPCResourceExhausted, OTLP allows another try only if the server
// requests a pause.
func (c GRPCCode) again(after time.Duration) bool {
	switch c {
	case 1, GRPCDeadlineExceeded, GRPCAborted, GRPCOutOfRange, GRPCUnavailable, GRPCDataLoss:
		return true
	}
	return c == GRPCResourceExhausted && after > 0
}

// GRPCError is a gRPC server's answer with a status other than OK.
type GRPCError struct {
	Code GRPCCode
	// Said is the server's message. The server may repeat secrets of the request in it. ddtop has replaced these
	// secrets.
	Said string
}

// Error returns the code and the message.
func (e *GRPCError) Error() string {
	if e.Said == "" {
		return "gRPC status " + e.Code.String()
	}
	return fmt.Sprintf("gRPC status %v: %q", e.Code, e.Said)
}

// GRPC makes gRPC calls with one request and one answer, over the HTTP/2 of net/http. With TLS it chooses its proxy in
// the same way as the type Web. Without TLS it uses the proxy in HTTPS_PROXY, as other gRPC clients do.
type GRPC struct {
	client *http.Client
	scheme string
}

// NewGRPC returns a client, with TLS or without.
func NewGRPC(tls bool) *GRPC {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectPatience}).DialContext, MaxIdleConns: 2, IdleConnTimeout: idleFor,
		TLSHandshakeTimeout: connectPatience, MaxResponseHeaderBytes: maxAnswer, DisableCompression: true, Protocols: new(http.Protocols),
	}
	scheme := "https"
	if tls {
		transport.Protocols.SetHTTP2(true)
	} else {
		scheme = "http"
		transport.Protocols.SetUnencryptedHTTP2(true)
		transport.Proxy, transport.DialContext = nil, dialThroughProxy
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &GRPC{&http.Client{Transport: transport, CheckRedirect: noRedirect}, scheme}
}

// grpcHead is the length of the header before each message, in bytes. The header is a byte that says whether the
// message is compressed, and four bytes with the message's length.
const grpcHead = 5

// Call calls a procedure ("/package.Service/Method") of host:port. The request is a message that is already compressed
// with gzip. Call returns the message of the answer. The error is a *RefusedError if another attempt would get the same
// answer, and a *LaterError if the server requests a pause. If the server answered by gRPC, the error wraps a
// *GRPCError.
func (g *GRPC) Call(ctx context.Context, host, procedure string, header http.Header, gzipped []byte) ([]byte, error) {
	body := make([]byte, grpcHead, grpcHead+len(gzipped))
	body[0] = 1
	binary.BigEndian.PutUint32(body[1:], uint32(len(gzipped)))
	body = append(body, gzipped...)
	to := url.URL{Scheme: g.scheme, Host: host, Path: procedure}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &RefusedError{err}
	}
	if req.Header = header.Clone(); req.Header == nil {
		req.Header = make(http.Header)
	}
	for key, value := range map[string]string{"Content-Type": "application/grpc", "Te": "trailers", "Grpc-Encoding": "gzip", "Grpc-Accept-Encoding": "gzip"} {
		req.Header.Set(key, value)
	}
	if deadline, ok := ctx.Deadline(); ok {
		req.Header.Set("Grpc-Timeout", strconv.FormatInt(max(time.Until(deadline).Milliseconds(), 1), 10)+"m")
	}
	resp, answer, readErr, err := ask(g.client, req, false)
	if err != nil {
		g.client.CloseIdleConnections() // so that the next try does not use a dead connection
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, judge(resp, answer, asked(g.client, req))
	}
	if readErr != nil {
		g.client.CloseIdleConnections()
		return nil, fmt.Errorf("reading the answer: %w", readErr)
	}
	if err := judgeGRPC(resp, header); err != nil {
		return nil, err
	}
	return grpcMessage(answer)
}

// judgeGRPC returns the status of a gRPC answer as an error. It returns nil if the status is OK. The status is in the
// HTTP trailer, or in the header if the answer has no message.
func judgeGRPC(resp *http.Response, asked http.Header) error {
	from := resp.Trailer
	if from.Get("Grpc-Status") == "" {
		from = resp.Header
	}
	status := from.Get("Grpc-Status")
	code, err := strconv.Atoi(status)
	if err != nil {
		return fmt.Errorf("the answer has no status of gRPC (its type is %q)", cut(Conceal(resp.Header.Get("Content-Type"), asked)))
	}
	if code == 0 {
		return nil
	}
	said := from.Get("Grpc-Message")
	if plain, err := url.PathUnescape(said); err == nil {
		said = plain
	}
	told := &GRPCError{GRPCCode(code), cut(Conceal(said, asked))}
	after := retryInfo(from.Get("Grpc-Status-Details-Bin"))
	switch {
	case !told.Code.again(after):
		return &RefusedError{told}
	case after > 0:
		return &LaterError{after, told}
	}
	return told
}

// retryInfo returns the pause that a server requests before the next try. details is an encoded google.rpc.Status,
// which may contain a google.rpc.RetryInfo with this pause. Otherwise the result is zero.
func retryInfo(details string) (after time.Duration) {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(details, "="))
	if err != nil {
		return 0
	}
	const (
		statusDetails, anyType, anyValue, infoDelay, durationSeconds, durationNanos = 3, 1, 2, 1, 1, 2
	)
	var seconds, nanos int64
	// if the details cannot be decoded, the result stays zero
	_ = protobuf.Each(raw, func(f protobuf.Field, _ uint64, detail []byte) {
		if f != statusDetails {
			return
		}
		var kind string
		var info []byte
		_ = protobuf.Each(detail, func(f protobuf.Field, _ uint64, data []byte) {
			switch f {
			case anyType:
				kind = string(data)
			case anyValue:
				info = data
			}
		})
		if kind != "type.googleapis.com/google.rpc.RetryInfo" {
			return
		}
		_ = protobuf.Each(info, func(f protobuf.Field, _ uint64, delay []byte) {
			if f != infoDelay {
				return
			}
			_ = protobuf.Each(delay, func(f protobuf.Field, n uint64, _ []byte) {
				switch f {
				case durationSeconds:
					seconds = int64(n)
				case durationNanos:
					nanos = int64(n)
				}
			})
		})
	})
	longest := int64(longestAsked / time.Second)
	return time.Duration(min(max(seconds, 0), longest))*time.Second + time.Duration(min(max(nanos, 0), int64(time.Second)))
}

// grpcMessage returns the message in an answer, after decompression.
func grpcMessage(answer []byte) ([]byte, error) {
	if len(answer) < grpcHead || uint64(len(answer)-grpcHead) < uint64(binary.BigEndian.Uint32(answer[1:])) {
		return nil, errors.New("the answer's message is cut off")
	}
	message := answer[grpcHead : grpcHead+int(binary.BigEndian.Uint32(answer[1:]))]
	if answer[0] == 0 {
		return message, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(message))
	if err == nil {
		message, err = io.ReadAll(io.LimitReader(z, maxAnswer))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return message, nil
}
