package debuginfod

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/ddtop/ddtop/internal/safefile"
)

const (
	// maxRedirects limits the number of redirects that are followed for one file.
	maxRedirects = 3
	// maxHeader limits the size of an answer's header, in bytes.
	maxHeader = 64 << 10
	// connectTime limits the time for a connection, and the time for the TLS handshake.
	connectTime = 10 * time.Second
)

// These are the errors of a request to a server.
var (
	errGarbage  = errors.New("what it sent is no ELF file that can be read")
	errOther    = errors.New("what it sent has another build id")
	errLarge    = errors.New("what it sent is too large")
	errNone     = errors.New("it has none")
	errTime     = errors.New("it did not answer in time")
	errRedirect = errors.New("it redirects too often, or not to https or http")
	errInside   = errors.New("it redirects into this network. If that is right, add the host to " + URLs)
	errSpace    = errors.New("what it sent is too large for the disk of the cache, of which ddtop leaves half free")
	errAnswer   = errors.New("it sent no complete answer")
)

func newHTTP(answer time.Duration, servers []*url.URL) *http.Client {
	n := named{hosts: make(map[string]bool)}
	for _, server := range servers {
		n.add(server)
	}
	return &http.Client{CheckRedirect: n.follow, Transport: &http.Transport{
		Proxy: n.proxy, DialContext: n.dial, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: connectTime, ResponseHeaderTimeout: answer, MaxResponseHeaderBytes: maxHeader,
	}}
}

// named has the hosts that the user has named, as servers or as proxies. A hostile server can redirect ddtop to any
// other host. Some hosts can be reached from ddtop's machine only, such as the host that hands a cloud machine its
// credentials. So ddtop connects to an address within its own network only if the user has named the host.
type named struct {
	mu    sync.Mutex
	hosts map[string]bool
}

func (n *named) add(u *url.URL) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[u.Hostname()] = true
}

func (n *named) has(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[host]
}

func (n *named) proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err == nil && u != nil {
		n.add(u)
	}
	return u, err
}

func (n *named) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTime}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if !n.has(host) {
		dialer.Control = func(_, at string, _ syscall.RawConn) error { return outside(at) }
	}
	return dialer.DialContext(ctx, network, addr)
}

// shared is a range of addresses that providers use inside their own networks (RFC 6598). Some clouds have a host in
// this range that hands out credentials.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// outside returns errInside if an address, given with its port, is not on the public Internet.
func outside(address string) error {
	at, err := netip.ParseAddrPort(address)
	if ip := at.Addr().Unmap(); err != nil || !ip.IsGlobalUnicast() || ip.IsPrivate() || shared.Contains(ip) {
		return errInside
	}
	return nil
}

// follow allows a redirect to https, or from http to http. It removes the URL of the redirecting server from the
// request to the next server, because the URL can have a secret. It also checks the next server's address, because
// behind a proxy, dial sees only the proxy's address.
func (n *named) follow(next *http.Request, via []*http.Request) error {
	next.Header.Del("Referer")
	before := via[len(via)-1].URL.Scheme
	if len(via) > maxRedirects || next.URL.Scheme != "https" && (next.URL.Scheme != "http" || before != "http") {
		return errRedirect
	}
	host := next.URL.Hostname()
	if _, err := netip.ParseAddr(host); err == nil && !n.has(host) {
		return outside(net.JoinHostPort(host, "0"))
	}
	return nil
}

// fetch gets a file from one server into the cache. Its errors quote nothing that the server has sent, because the
// server may repeat the URL, which can have a secret.
func (c *Client) fetch(server *url.URL, buildID string, folder *os.Root, to *safefile.Destination) error {
	c.mu.Lock()
	most, within := min(c.limits.file, c.limits.bytes), min(c.limits.fileTime, c.limits.allTime)
	c.mu.Unlock()
	if most <= 0 || within <= 0 {
		return errBudget
	}
	tooLarge := errLarge
	if share := c.free(folder) / (2 * maxAtOnce); share < most {
		most, tooLarge = share, errSpace
	}
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	began, got := time.Now(), int64(0)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.limits.allTime -= time.Since(began)
		c.limits.bytes -= got
	}()
	from := server.JoinPath("buildid", buildID, "debuginfo").String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return errAnswer
	}
	req.Header.Set("User-Agent", "ddtop")
	resp, err := c.http.Do(req)
	if err != nil {
		return reason(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errNone
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	case resp.ContentLength > most:
		return tooLarge
	}
	f, err := to.Begin()
	if err != nil {
		return err
	}
	name := filepath.Base(f.Path())
	if got, err = io.Copy(f, io.LimitReader(resp.Body, most+1)); err != nil {
		err = reason(err)
	} else if got > most {
		err = tooLarge
	} else {
		err = c.check(folder, name, buildID)
	}
	if err != nil {
		_ = f.Abort() // ignore this error: the caller reports err, and the message has space for only one error
		return err
	}
	if err = f.Commit(); err != nil {
		_ = folder.Remove(name)
	}
	return err
}

// reason replaces an error of a download by an error that is safe to show. The new error quotes neither the request's
// URL nor the server's answer, because both can have secrets.
func reason(err error) error {
	var written *fs.PathError
	var name *net.DNSError
	var untrusted *tls.CertificateVerificationError
	var code syscall.Errno
	var slow interface{ Timeout() bool }
	switch {
	case errors.As(err, &written):
		return written
	case errors.Is(err, errRedirect):
		return errRedirect
	case errors.Is(err, errInside):
		return errInside
	case errors.Is(err, context.Canceled):
		return errPending
	case errors.As(err, &slow) && slow.Timeout():
		return errTime
	case errors.As(err, &name):
		return errors.New("its name cannot be resolved")
	case errors.As(err, &untrusted):
		return errors.New("its certificate is not trusted")
	case errors.As(err, &code):
		return code
	}
	return errAnswer
}
