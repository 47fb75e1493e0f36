package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/ddtop/ddtop/push"
)

const (
	// maxConnections limits the open connections. Each needs a descriptor and about 10 kB of memory.
	maxConnections = 64
	// grace is how long a connection without a request stays open while new connections wait because of maxConnections.
	// A client on the same machine sends its request within this time. If a connection has waited in the kernel's
	// queue, its request has already arrived. A full queue of 4,096 connections is served in about three seconds.
	//
	// answerGrace is the same limit for a connection that is being answered. With this value, 64 clients that read
	// slowly still leave room for 200 other connections per second.
	grace       = 50 * time.Millisecond
	answerGrace = 300 * time.Millisecond
	// maxAtOnce limits the requests that are answered at the same time. Further clients get status 503, which asks them
	// to try again.
	maxAtOnce = 8
	// headerPatience limits how long a request may take to arrive.
	headerPatience = 2 * time.Second
	// answerPatience limits how long a client may take to read an answer.
	answerPatience = 5 * time.Second
	// maxHeader limits the size of a request, in bytes.
	maxHeader = 16 << 10
)

// ParseAddress turns "9464", ":9464" or "HOST:9464" into an address to listen on. If the text has no host, the host is
// the loopback address. loopback is true if only programs on this machine can connect to the address.
func ParseAddress(text string) (address string, loopback bool, err error) {
	host, port := "", text
	if _, numErr := strconv.ParseUint(text, 10, 16); numErr != nil {
		if host, port, err = net.SplitHostPort(text); err != nil {
			return "", false, fmt.Errorf("%q is not an address such as 127.0.0.1:9464", text)
		}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", false, fmt.Errorf("%q is not an address such as 127.0.0.1:9464: its port is no number below 65536", text)
	}
	switch host {
	case "":
		host = "127.0.0.1"
	case "localhost":
		return net.JoinHostPort(host, port), true, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "", false, fmt.Errorf("%q is not an address such as 127.0.0.1:9464: a name is not looked up", text)
	}
	return net.JoinHostPort(host, port), ip.IsLoopback(), nil
}

// Server is an HTTP server that answers GET /metrics and GET /healthz.
type Server struct {
	server *http.Server
	done   chan struct{}
}

// Serve answers requests on a listener until Close is called. Close also closes the listener. Serve calls the function
// figures for each request, from any goroutine.
//
// If loopback is true, the server answers only requests whose Host is localhost or an IP address. Otherwise a web page
// could read the figures: its own host name may resolve to this machine.
func Serve(l net.Listener, loopback bool, figures func() *Figures) *Server {
	places := make(chan struct{}, maxAtOnce)
	mux := http.NewServeMux()
	handle := func(path, kind string, write func(io.Writer, *Figures) error) {
		// A request occupies one of maxAtOnce slots. Free the slot before the answer is written, because the client may
		// read slowly.
		text := func() (b bytes.Buffer, status int) {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			default:
				return b, http.StatusServiceUnavailable
			}
			if err := write(&b, figures()); err != nil {
				return b, http.StatusInternalServerError
			}
			return b, http.StatusOK
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if loopback && !namesLoopback(r.Host) {
				http.Error(w, "ask by localhost or an address", http.StatusForbidden)
				return
			}
			b, status := text()
			switch status {
			case http.StatusServiceUnavailable:
				http.Error(w, "too many requests at a time", status)
				return
			case http.StatusInternalServerError:
				http.Error(w, "the figures could not be made", status)
				return
			}
			w.Header().Set("Content-Type", kind)
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write(b.Bytes()) // the client may have gone
		})
	}
	handle("/metrics", "text/plain; version=0.0.4; charset=utf-8", Write)
	handle("/healthz", "text/plain; charset=utf-8", writeHealth)
	s := &Server{done: make(chan struct{}), server: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hasAsked(r.Context())
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headerPatience, ReadTimeout: headerPatience, WriteTimeout: answerPatience, MaxHeaderBytes: maxHeader,
		// errors in the requests of unknown clients are not worth a log message
		ConnContext: withConn, ErrorLog: log.New(io.Discard, "", 0),
	}}
	s.server.SetKeepAlivesEnabled(false)
	go func() {
		defer close(s.done)
		_ = s.server.Serve(newTable(l)) // returns after Close was called
	}()
	return s
}

// Close stops the server. It waits for answers that are being written, until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	<-s.done
	return err
}

func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// writeHealth reports that ddtop works, and the state of each destination. ddtop is healthy even if a destination
// fails: a restart would not help, and ddtop keeps the profiles that it could not send.
func writeHealth(w io.Writer, f *Figures) error {
	if _, err := fmt.Fprintf(w, "ok\nfollowing %d processes\n", f.Processes); err != nil {
		return err
	}
	if x := f.Exact; x != nil {
		if _, err := fmt.Fprintf(w, "exactly: %d processes\n", x.Processes); err != nil {
			return err
		}
		for i := range x.Resting {
			r := &x.Resting[i]
			if _, err := fmt.Fprintf(w, "process %d: sampled only until %s, when exact mode is tried again: %q\n", r.PID, r.Until.Format(time.RFC3339), r.Why); err != nil {
				return err
			}
		}
	}
	active := 0
	for i := range f.Findings {
		active += f.Findings[i].Active
	}
	if active > 0 {
		if _, err := fmt.Fprintf(w, "findings: %d active\n", active); err != nil {
			return err
		}
	}
	for i := range f.Destinations {
		if err := writeDestination(w, "", &f.Destinations[i]); err != nil {
			return err
		}
	}
	for i := range f.Alerts {
		if err := writeDestination(w, "alerts to ", &f.Alerts[i]); err != nil {
			return err
		}
	}
	for i := range f.Captures {
		if err := writeDestination(w, "captures to ", &f.Captures[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeDestination reports the state of a destination.
func writeDestination(w io.Writer, what string, d *push.Stats) error {
	how := "taken"
	if d.LastError != "" {
		how = "failing: " + strconv.Quote(d.LastError)
	} else if d.LastSent.IsZero() {
		how = "nothing sent yet"
	}
	aside := ""
	if n := d.Spool.Aside; n > 0 {
		aside = fmt.Sprintf(", %d of them set aside: %q", n, d.AsideError)
	}
	if d.GivenUp > 0 {
		aside += fmt.Sprintf(", %d given up", d.GivenUp)
	}
	_, err := fmt.Fprintf(w, "%s%s: %s, %d waiting%s\n", what, d.Destination, how, d.Spool.Count, aside)
	return err
}
