package push

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// dialThroughProxy connects to an address. It uses the proxy in HTTPS_PROXY, unless NO_PROXY excludes the address.
// net/http itself does this for HTTP/1, but not for HTTP/2 without TLS.
func dialThroughProxy(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: connectPatience}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
	if err != nil {
		return nil, err
	}
	if proxy == nil {
		return dialer.DialContext(ctx, network, address)
	}
	c, err := dialProxy(ctx, dialer, proxy)
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	tunnel, err := connectTunnel(ctx, c, proxy, address)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	return tunnel, nil
}

func dialProxy(ctx context.Context, dialer *net.Dialer, proxy *url.URL) (net.Conn, error) {
	port := proxy.Port()
	switch {
	case proxy.Scheme == "http":
		if port == "" {
			port = "80"
		}
		return dialer.DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), port))
	case proxy.Scheme == "https":
		if port == "" {
			port = "443"
		}
		return (&tls.Dialer{NetDialer: dialer}).DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), port))
	}
	return nil, fmt.Errorf("gRPC without TLS goes through http:// and https:// proxies alone, not %s://", proxy.Scheme)
}

// connectTunnel asks a proxy for a tunnel to an address, by HTTP's CONNECT. c is the connection to the proxy.
// connectTunnel returns a connection through the tunnel.
func connectTunnel(ctx context.Context, c net.Conn, proxy *url.URL, address string) (net.Conn, error) {
	deadline := time.Now().Add(connectPatience)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: make(http.Header)}
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		req.Header.Set("Proxy-Authorization", BasicAuth(proxy.User.Username(), password))
	}
	if err := req.Write(c); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(c, maxAnswer)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, &StatusError{Status: resp.StatusCode}
	}
	return &tunnel{c, r}, c.SetDeadline(time.Time{})
}

// tunnel is a connection through a proxy. r is the buffered reader that has read the proxy's answer. Its buffer may
// already have the first bytes from the other end of the tunnel. So Read must use r.
type tunnel struct {
	net.Conn
	r *bufio.Reader
}

// Read reads from the other end.
func (t *tunnel) Read(b []byte) (int, error) { return t.r.Read(b) }
