package status

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// counted is a listener that counts its open connections.
type counted struct {
	net.Listener
	mu        sync.Mutex
	now, most int
}

type countedConn struct {
	net.Conn
	of   *counted
	once sync.Once
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := c.(*net.TCPConn).SetWriteBuffer(4096); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	l.most = max(l.most, l.now)
	return &countedConn{Conn: c, of: l}, nil
}

func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.of.now--
	})
	return c.Conn.Close()
}

func serveCounted(t *testing.T, f func() *Figures) *counted {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &counted{Listener: inner}
	s := Serve(l, true, f)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel() // so that Close does not wait for the open connections
		if err := s.Close(ended); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return l
}

// connect opens a connection to the server and sends a text, such as the beginning of a request.
func connect(t *testing.T, l net.Listener, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil && text != "" {
		t.Fatal(err)
	}
	return c
}

// answered requests the page with the figures. It fails the test if the server does not answer with the page.
func answered(t *testing.T, l net.Listener) {
	t.Helper()
	if status, text := get(t, "GET", "http://"+l.Addr().String()+"/metrics", ""); status != 200 || !strings.Contains(text, "ddtop_processes 2\n") {
		t.Errorf("%d: %s", status, text)
	}
}

// TestFlood: however many clients connect, the server has at most 64 open connections. A client that sends a request
// still gets its answer.
func TestFlood(t *testing.T) {
	for _, text := range []string{"", "GET /metrics HTTP/1.1\r\nX: "} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			t.Parallel()
			l := serveCounted(t, figures)
			for range 4 * maxConnections {
				connect(t, l, text)
			}
			answered(t, l)
			l.mu.Lock()
			defer l.mu.Unlock()
			if most := maxConnections + 1; l.most > most { // one more connection waits for a place
				t.Errorf("%d connections were open, at most %d may be", l.most, most)
			}
		})
	}
}

// TestHalfOpen: if a client does not complete its request within the limit for a request's header, the server closes
// the connection. A client that sends a byte now and then gets no more time.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	l := serveCounted(t, figures)
	const late = 8 * time.Second // four times headerPatience, because the machine may be busy
	begun := time.Now()
	idle, slow := connect(t, l, ""), connect(t, l, "GET /metrics HTTP/1.1\r\nX: ")
	go func() {
		for {
			if _, err := io.WriteString(slow, "x"); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	for name, c := range map[string]net.Conn{"idle": idle, "slow": slow} {
		// reads until the server closes the connection; a read error is allowed, because the server may reset the
		// connection
		_, _ = io.Copy(io.Discard, c)
		if d := time.Since(begun); d > late {
			t.Errorf("the %s one was closed after %v", name, d)
		}
	}
}

// TestSlowReaders: some clients send requests and never read the answers. Other clients still get their answers.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	big := figures()
	for i := range 8 {
		big.Services = append(big.Services, Service{Name: fmt.Sprintf("%d-%s", i, strings.Repeat("x", 1000))})
	}
	l := serveCounted(t, func() *Figures { return big })
	for i := range 2 * maxConnections {
		c := connect(t, l, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if err := c.SetReadDeadline(time.Now().Add(5 * answerPatience)); err != nil {
			t.Fatal(err)
		}
		// Status 200 is the normal answer. On a busy machine, the server may also answer that there are too many
		// requests at the same time.
		begin := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(c, begin); err != nil || !strings.HasPrefix(string(begin), "HTTP/1.1 ") {
			t.Fatalf("the request of client %d is not answered: %q, %v", i, begin, err)
		}
	}
	answered(t, l)
}

// TestNoKeepAlive: a connection serves only one request.
func TestNoKeepAlive(t *testing.T) {
	t.Parallel()
	l := serveCounted(t, figures)
	const request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
	c := connect(t, l, request+request)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if !resp.Close {
		t.Error("the answer does not say that the connection ends")
	}
	if next, err := http.ReadResponse(r, nil); err == nil {
		t.Errorf("a second request was answered: %d", next.StatusCode)
	}
}
