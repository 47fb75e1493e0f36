package push

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ddtop/ddtop/push/spool"
)

// A Route is a destination and the queue of its unsent payloads.
type Route struct {
	Destination
	Queue *spool.Queue
}

// Stats are counts of one destination since the Pusher was started.
type Stats struct {
	// Destination is the result of the destination's String method.
	Destination string
	// Sent counts payloads that the destination accepted, and SentBytes their size. Failures counts failed attempts.
	Sent, SentBytes, Failures int64
	// Refused counts payloads that the destination will never accept. Lost counts three kinds of payloads: those that
	// came faster than the disk could write, those that could not be encoded, and those that were only in memory when
	// ddtop ended.
	Refused, Lost int64
	// GivenUp counts payloads that were dropped after failed tries. Such a payload either failed too often while others
	// were accepted, or it became too old.
	GivenUp int64
	// LastSent is when the destination last accepted a payload. It is zero if it has accepted none yet. LastError is
	// empty if the last attempt succeeded.
	LastSent  time.Time
	LastError string
	// AsideError is why payloads are set aside for a later try. It is empty if no payload is set aside.
	AsideError string
	Spool      spool.Stats
}

// Dropped returns how many payloads were dropped without being sent, except those that the destination refused.
func (s *Stats) Dropped() int64 { return s.Lost + s.Spool.Dropped + s.GivenUp }

// A Pusher sends periods to destinations. Its methods may be called from any goroutine.
type Pusher struct {
	lanes []*lane
	wg    sync.WaitGroup
}

// Kind is the kind of payload that a Pusher sends, for example profiles. It decides which word the log uses.
type Kind uint8

// The kinds of payloads.
const (
	Profiles Kind = iota
	Alerts
	Captures
)

// words returns the words that the log uses for payloads of this kind. one is the word for a single payload, and many
// the word for several.
func (k Kind) words() (one, many string) {
	switch k {
	case Alerts:
		return "an alert", "alerts"
	case Captures:
		return "a capture", "captures"
	}
	return "a profile", "profiles"
}

// New returns a Pusher. It sends the payloads that the routes' queues already have, and payloads that are added later.
// It logs when payloads cannot be sent or are lost, and when sending works again.
func New(routes []Route, log *slog.Logger) *Pusher { return NewOf(Profiles, routes, log) }

// NewOf is like New, for payloads of any kind.
func NewOf(kind Kind, routes []Route, log *slog.Logger) *Pusher {
	p := new(Pusher)
	for _, r := range routes {
		l := &lane{Route: r, log: log.With("to", r.String()), changed: make(chan struct{}, 1), closing: make(chan struct{}), random: rand.Float64, apart: make(map[string]*apart)}
		l.one, l.many = kind.words()
		l.intake.more = make(chan struct{}, 1)
		l.ctx, l.cancel = context.WithCancel(context.Background())
		p.lanes = append(p.lanes, l)
		p.wg.Go(l.spool)
		p.wg.Go(l.send)
	}
	return p
}

// Add encodes a period and queues it for all destinations. It does not wait for the disk or the network.
func (p *Pusher) Add(period *Period) {
	p.Offer(period.Process.PID, func(d Destination) (Payload, error) {
		payload, err := d.Encode(period)
		payload.PID, payload.Title, payload.From, payload.To = period.Process.PID, period.Process.Title, period.From, period.To
		payload.Service = period.Tags.Get("service")
		return payload, err
	})
}

// Offer calls the function encode for each destination and queues the payload that encode returns. It does not wait for
// the disk or the network. pid is the process to which the payload belongs.
func (p *Pusher) Offer(pid int, encode func(Destination) (Payload, error)) {
	for _, l := range p.lanes {
		payload, err := encode(l.Destination)
		if err == nil {
			var data []byte
			if data, err = payload.marshal(); err == nil {
				l.offer(data)
				continue
			}
		}
		l.lost(1)
		l.log.Error(l.one+" could not be encoded", "pid", pid, "err", err)
	}
}

// Close tries to send each queued payload once, and stops. It logs how many payloads were not sent. Payloads that are
// not on the disk are lost, and Close logs their number, too. If the disk or the network hangs, Close returns when ctx
// ends. Callers must not call Add after Close.
func (p *Pusher) Close(ctx context.Context) {
	for _, l := range p.lanes {
		l.intake.close()
		close(l.closing)
	}
	done := make(chan struct{})
	go func() {
		p.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	for _, l := range p.lanes {
		l.cancel()
		l.tellWhatIsLeft()
	}
}

// Stats returns the Stats of all destinations.
func (p *Pusher) Stats() []Stats {
	out := make([]Stats, len(p.lanes))
	for i, l := range p.lanes {
		out[i] = l.figures()
	}
	return out
}

// lane is a Route together with two goroutines. One runs the method spool, which writes new payloads to the queue. The
// other one runs the method send, which sends the payloads in the queue to the destination.
type lane struct {
	Route
	log *slog.Logger
	// one and many are the words that the log uses for one payload and for several. They depend on the Kind.
	one, many string
	intake    intake
	// changed signals that the queue has a new payload. The channel closing is closed when the lane must end. The end
	// of ctx interrupts a try to send that still runs.
	changed chan struct{}
	closing chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
	random  func() float64 // a number from 0 to 1
	remark  string         // the last remark; only the method send uses it
	round   round          // only the method send uses it
	unkept  bool           // the log already says that the disk cannot store marks (spool.Mark)
	apart   map[string]*apart

	mu       sync.Mutex
	stats    Stats
	spooled  bool      // the goroutine of spool has ended
	troubled time.Time // when sending began to fail; zero if it works
	sayAt    time.Time // the earliest time at which the log may report the failure again
	disk     bool      // the log already says that the disk fails
	// sayFullAt is the earliest time at which the log may say again that the queue is full.
	sayFullAt time.Time
}

func (l *lane) offer(data []byte) {
	if dropped := l.intake.add(data); dropped > 0 {
		l.lost(dropped)
		l.log.Warn(l.many+" were dropped: the spool's disk takes them too slowly", "dropped", dropped)
	}
}

func (l *lane) lost(n int) { l.count(func(s *Stats) { s.Lost += int64(n) }) }

// count changes l.stats with the lock held.
func (l *lane) count(change func(*Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}

func (l *lane) figures() Stats {
	l.mu.Lock()
	s := l.stats
	l.mu.Unlock()
	s.Destination, s.Spool = l.String(), l.Queue.Stats()
	return s
}

// tellWhatIsLeft logs how many payloads were not sent when the lane ended.
func (l *lane) tellWhatIsLeft() {
	waiting := l.intake.left()
	l.lost(waiting)
	s := l.figures()
	lost := s.Spool.InMemory + waiting
	if kept := s.Spool.Count - s.Spool.InMemory; kept > 0 {
		l.log.Info(l.many+" are left in the spool for the next start", l.many, kept, "err", s.LastError)
	}
	if lost > 0 {
		l.lost(s.Spool.InMemory)
		l.log.Warn(l.many+" are lost: they could not be sent before the end, and are not on disk", l.many, lost, "err", s.LastError)
	}
}
