package files

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/push"
)

// FileHeader is the name of the payload's header that contains the file name of a capture.
const FileHeader = "File"

// captured matches the file names of captures: PROGRAM-PID-TIME-RULE.ddtop and PROGRAM-PID-TIME-RULE.html.
var captured = regexp.MustCompile(`^` + safefile.DatePattern + `-[a-z0-9_]+\.(ddtop|html)$`)

// half matches the names of unfinished captures. Such files remain if ddtop is killed.
var half = regexp.MustCompile(`^\.` + safefile.DatePattern + `-[a-z0-9_]+\.(ddtop|html)-[0-9a-f]{8}$`)

// Captures is a push.Destination for captures, which are recordings and HTML pages about an alert. It is a folder, or a
// server that accepts files by PUT.
type Captures interface {
	push.Destination
	// Place returns the path or the URL that a capture's file will have after it is sent. It contains no secrets.
	Place(file string) string
}

// NewCaptures returns the destination that text names. text is the path of a folder, a URL file:///FOLDER as in New, or
// a URL https://HOST/PATH to which ddtop uploads by PUT. headers has the form of push.ParseHeaders.
func NewCaptures(text, headers, version string) (Captures, error) {
	u, err := url.Parse(text)
	switch {
	case err == nil && (u.Scheme == "https" || u.Scheme == "http"):
		return newUpload(u, headers, version)
	case err == nil && u.Scheme == "file":
	case err == nil && u.Scheme != "":
		return nil, errors.New("it takes a folder, or a URL with https:// or file://")
	default:
		path, err := filepath.Abs(text)
		if err != nil {
			return nil, err
		}
		u = &url.URL{Scheme: "file", Path: path}
	}
	d, err := New(u)
	if err != nil {
		return nil, err
	}
	d.ours, d.unfinished, d.name = captured, half, captureName
	return folderOfCaptures{d}, nil
}

// captureName returns the file name of the capture in a payload. It returns an error if the name does not have the form
// of a capture's name.
func captureName(p *push.Payload) (string, error) {
	name := p.Header[FileHeader]
	if !captured.MatchString(name) {
		return "", &push.RefusedError{Err: fmt.Errorf("%q is no name of a capture", name)}
	}
	return name, nil
}

type folderOfCaptures struct{ *Folder }

// Place returns the path of a file.
func (d folderOfCaptures) Place(file string) string { return filepath.Join(d.path, file) }

// upload is the Captures that sends files to a server by PUT.
type upload struct {
	name   string
	to     url.URL
	header http.Header
	web    *push.Web
}

func newUpload(u *url.URL, headers, version string) (*upload, error) {
	if u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("it takes a URL with a host and without a user, as in https://files.example/ddtop")
	}
	header, err := push.ParseHeaders(headers)
	if err != nil {
		return nil, fmt.Errorf("DDTOP_CAPTURE_HEADERS: %w", err)
	}
	header.Set("User-Agent", "ddtop/"+version)
	d := &upload{to: *u, header: header, web: push.NewWeb("").NoRedirects().StatusOnly()}
	d.name = u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		d.web.Hide(&url.URL{RawQuery: u.RawQuery})
	}
	return d, nil
}

// String returns the URL without its query, which may be a secret.
func (d *upload) String() string { return d.name }

// Place returns the URL of a file, without the query.
func (d *upload) Place(file string) string { return d.name + "/" + url.PathEscape(file) }

// Encode returns an error, because upload does not accept profiles.
func (d *upload) Encode(*push.Period) (push.Payload, error) {
	return push.Payload{}, errors.New("it takes captures, not profiles")
}

// Send puts a file on the server.
func (d *upload) Send(ctx context.Context, p *push.Payload) error {
	name, err := captureName(p)
	if err != nil {
		return err
	}
	to := *d.to.JoinPath(name)
	header := d.header.Clone()
	header.Set("Content-Type", "application/octet-stream")
	if strings.HasSuffix(name, ".html") {
		header.Set("Content-Type", "text/html; charset=utf-8")
	}
	_, err = d.web.Request(ctx, http.MethodPut, to.String(), header, p.Body)
	return err
}
