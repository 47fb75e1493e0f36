package status

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// table is a listener that limits the number of open connections. If the limit is reached, it closes one connection for
// each new one. It prefers the oldest connection that has not sent its request yet. If all have sent their requests, it
// closes the oldest connection. So a client that has sent its whole request gets its answer, however many others keep
// connections open. While all open connections are too young to be closed, new ones wait in the kernel's queue.
type table struct {
	net.Listener
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	open  []*conn // oldest first
	freed chan struct{}
}

type conn struct {
	net.Conn
	of *table
	at time.Time
	// asked is true after the whole request header has arrived. The table's mutex protects it.
	asked bool
}

func newTable(l net.Listener) *table {
	return &table{Listener: l, closed: make(chan struct{}), freed: make(chan struct{}, 1)}
}

// Accept waits for a new connection, and then until the table has room for this connection. It returns the errors of
// the listener unchanged.
func (t *table) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &conn{Conn: c, of: t, at: time.Now()}
	for {
		wait, ok := t.enter(one)
		if ok {
			return one, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-t.freed:
		case <-t.closed:
			timer.Stop()
			_ = c.Close() // no goroutine will answer this connection
			return nil, net.ErrClosed
		}
		timer.Stop()
	}
}

// enter adds a connection to the table. If the table is full, it closes another connection. If all connections are too
// young to be closed, ok is false, and wait is the time until one may be closed.
func (t *table) enter(one *conn) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= maxConnections {
		i, wait := t.victim()
		if wait > 0 {
			return wait, false
		}
		_ = t.open[i].Conn.Close() // the connection that victim chose makes room for the new one
		t.open = slices.Delete(t.open, i, i+1)
	}
	one.at = time.Now()
	t.open = append(t.open, one)
	return 0, true
}

// victim returns the index of the connection to close next, and how long this connection must still stay open. There
// are two candidates: the oldest connection without a request, and the oldest connection with a request. Each of them
// may be closed after a certain time. If the candidate without a request may be closed now, victim returns it.
// Otherwise it returns the candidate that may be closed sooner. The caller must hold mu.
func (t *table) victim() (at int, wait time.Duration) {
	wait = answerGrace
	for _, kind := range []struct {
		asked bool
		grace time.Duration
	}{{false, grace}, {true, answerGrace}} {
		for i, c := range t.open {
			if c.asked != kind.asked {
				continue
			}
			if left := kind.grace - time.Since(c.at); left < wait {
				at, wait = i, left
			}
			break
		}
		if wait <= 0 {
			break
		}
	}
	return at, max(wait, 0)
}

// Close ends the listener.
func (t *table) Close() error {
	t.once.Do(func() { close(t.closed) })
	return t.Listener.Close()
}

// Close closes the connection and removes it from the table.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.open = slices.DeleteFunc(c.of.open, func(o *conn) bool { return o == c })
	c.of.mu.Unlock()
	select {
	case c.of.freed <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}

// CloseWrite closes only the sending side, so that the client can read the whole answer before the connection is
// closed.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// hasAsked records that the whole request of a connection has arrived.
func hasAsked(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.of.mu.Lock()
		c.asked = true
		c.of.mu.Unlock()
	}
}
