package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ddtop/ddtop/push/protobuf"
)

const (
	// maxAnswer limits how much of a server's answer is read, in bytes. maxAnswerSaid limits how much of it is logged.
	maxAnswer     = 64 << 10
	maxAnswerSaid = 200
	// connectPatience limits the time to make a connection, and the time of the TLS handshake.
	connectPatience = 10 * time.Second
	// idleFor is how long an idle connection is kept. It is shorter than the time for which servers keep idle
	// connections. So ddtop does not send a request on a connection that the server is about to close.
	idleFor = 30 * time.Second
)

// Web sends payloads by HTTP. It trusts the certificate authorities that this machine trusts. It uses the proxies of
// the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY). It follows no redirect to another host, and limits how much of
// an answer it reads.
type Web struct {
	client *http.Client
	// hidden are the secret parts of the URL, which errors must not show.
	hidden []string
	// statusOnly is true if Web reads only the status of a successful answer, and not its body.
	statusOnly bool
}

// NewWeb returns a Web. If socket is not empty, the Web connects to the unix socket with this path, whatever the URL's
// host is.
func NewWeb(socket string) *Web {
	dialer := &net.Dialer{Timeout: connectPatience}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 2,
		IdleConnTimeout: idleFor, TLSHandshakeTimeout: connectPatience, MaxResponseHeaderBytes: maxAnswer,
	}
	if socket != "" {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	return &Web{client: &http.Client{Transport: transport, CheckRedirect: sameHost}}
}

// maxRedirects limits how many redirects are followed.
const maxRedirects = 3

// sameHost checks redirects for http.Client.CheckRedirect. It allows a redirect only if the new request goes to the
// same host and is otherwise unchanged.
func sameHost(next *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || next.Method != first.Method || next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// minHidden is the shortest length of a part of a URL that is hidden in errors, in bytes. Shorter parts are often words
// or numbers that are no secret.
const minHidden = 6

// Hide keeps the URL's path and query out of error texts, both as a whole and in parts. This is necessary because a
// server may repeat them in its answer, and the error text quotes the answer.
func (w *Web) Hide(u *url.URL) *Web {
	for _, s := range []string{u.RequestURI(), strings.Trim(u.EscapedPath(), "/"), strings.Trim(u.Path, "/"), u.RawQuery} {
		if s != "" && s != "/" {
			w.hidden = append(w.hidden, s)
		}
	}
	separates := func(r rune) bool { return strings.ContainsRune("/&=", r) }
	parts := strings.FieldsFunc(u.EscapedPath()+"/"+u.Path+"/"+u.RawQuery, separates)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	for _, s := range parts {
		if len(s) >= minHidden {
			w.hidden = append(w.hidden, s)
		}
	}
	return w
}

// NoRedirects makes w follow no redirects, and returns w.
func (w *Web) NoRedirects() *Web {
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return w
}

// StatusOnly makes Post return as soon as it has the status of a successful answer, because some servers send answers
// that never end. With such a status, the server has accepted the body, and must not get it again.
func (w *Web) StatusOnly() *Web {
	w.statusOnly = true
	return w
}

// Post sends a body and returns the answer. The error is a *RefusedError if another attempt would get the same answer,
// and a *LaterError if the server requests a pause.
func (w *Web) Post(ctx context.Context, to string, header http.Header, body []byte) ([]byte, error) {
	return w.Request(ctx, http.MethodPost, to, header, body)
}

// Request is like Post, but with any HTTP method.
func (w *Web) Request(ctx context.Context, method, to string, header http.Header, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, &RefusedError{err}
	}
	req.Header = header
	resp, answer, readErr, err := ask(w.client, req, w.statusOnly, w.hidden...)
	if err != nil {
		return nil, err
	}
	if err := judge(resp, answer, asked(w.client, req), w.hidden...); err != nil {
		return nil, err
	}
	if readErr != nil {
		return nil, &CutError{readErr}
	}
	return answer, nil
}

// A CutError means that the rest of an answer could not be read, after its status has reported success.
type CutError struct{ Err error }

// Error returns the reason.
func (e *CutError) Error() string { return fmt.Sprintf("reading the answer: %v", e.Err) }

// Unwrap returns the reason.
func (e *CutError) Unwrap() error { return e.Err }

// maxErrorSaid limits the length of an error text of net/http, in bytes. Such a text may quote the answer of a server
// that does not speak HTTP.
const maxErrorSaid = 300

// cleanError is an error of net/http without the secrets of the request. net/http quotes an answer that it cannot
// parse, and the server may have repeated the request in this answer.
type cleanError struct {
	text string
	err  error
}

// Error returns the text.
func (e *cleanError) Error() string { return e.text }

// Unwrap returns the error of net/http.
func (e *cleanError) Unwrap() error { return e.err }

// ask sends a request and reads the answer. readErr is not nil if the answer is incomplete. If statusOnly is true, ask
// does not read the body of a successful answer. The errors contain neither secrets of the request's header nor hidden
// parts of its URL.
func ask(client *http.Client, req *http.Request, statusOnly bool, hidden ...string) (resp *http.Response, answer []byte,
	readErr, err error) {
	resp, err = client.Do(req)
	if err != nil {
		var named *url.Error // the caller reports the URL, so leave out the text of this error, which repeats it
		if errors.As(err, &named) {
			err = named.Err
		}
		text := conceal(err.Error(), asked(client, req), hidden)
		return nil, nil, nil, &cleanError{strings.ToValidUTF8(text[:min(len(text), maxErrorSaid)], ""), err}
	}
	defer resp.Body.Close()
	if statusOnly && resp.StatusCode/100 == 2 {
		return resp, nil, nil, nil
	}
	answer, readErr = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp, answer, readErr, nil
}

// asked returns the headers of a request. They include Proxy-Authorization, which net/http makes from the proxy's URL.
func asked(client *http.Client, req *http.Request) http.Header {
	transport, ok := client.Transport.(*http.Transport)
	if !ok || transport.Proxy == nil {
		return req.Header
	}
	proxy, err := transport.Proxy(req)
	if err != nil || proxy == nil || proxy.User == nil {
		return req.Header
	}
	password, _ := proxy.User.Password()
	all := make(http.Header)
	maps.Copy(all, req.Header)
	all.Set("Proxy-Authorization", BasicAuth(proxy.User.Username(), password))
	return all
}

// StatusError is an answer with a status other than success.
type StatusError struct {
	// Status is the HTTP status. Said is the beginning of the answer, without secrets of the request.
	Status int
	Said   string
}

// Error returns the status and the answer's text.
func (e *StatusError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("HTTP status %d", e.Status)
	}
	return fmt.Sprintf("HTTP status %d: %q", e.Status, e.Said)
}

// said returns the text of an answer that reports a failure. If the answer is an encoded google.rpc.Status, said
// returns only the message in it.
func said(resp *http.Response, answer []byte) string {
	const statusMessage = 2
	text := string(answer)
	if kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); kind == "application/x-protobuf" {
		text = ""
		// if the answer cannot be decoded, the message stays empty
		_ = protobuf.Each(answer, func(f protobuf.Field, _ uint64, data []byte) {
			if f == statusMessage {
				text = string(data)
			}
		})
	}
	return text
}

// judge returns an error for an answer's status, or nil if the status is a success. asked is the request's header, and
// hidden are the secret parts of its URL. The error leaves out these secrets.
func judge(resp *http.Response, answer []byte, asked http.Header, hidden ...string) error {
	status := resp.StatusCode
	if status/100 == 2 {
		return nil
	}
	err := &StatusError{status, cut(strings.TrimSpace(conceal(said(resp, answer), asked, hidden)))}
	switch {
	case status/100 == 3:
		location := cut(conceal(resp.Header.Get("Location"), asked, hidden))
		return &RefusedError{fmt.Errorf("%w: it redirects to %q, which is not followed", err, location)}
	case status/100 == 5, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		if after := retryAfter(resp.Header.Get("Retry-After"), time.Now()); after > 0 {
			return &LaterError{after, err}
		}
		return err
	}
	return &RefusedError{err}
}

func cut(said string) string { return said[:min(len(said), maxAnswerSaid)] }

// retryAfter returns the pause that a Retry-After header requests. The header has a number of seconds or a date. The
// pause is zero if the header is missing, or if the date is in the past.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(longestAsked/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
