package push

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ddtop/ddtop/push/spool"
)

// Route is a destination with the queue of what it has not taken yet.
type Route struct {
	Destination
	Queue *spool.Queue
}

// Stats are figures of one destination, since the start.
type Stats struct {
	// Destination is its String.
	Destination string
	// Sent is how many payloads it took, SentBytes their size. Failures is how often sending failed and was tried again.
	Sent, SentBytes, Failures int64
	// Refused is how many it did not take for good; Lost how many were given up because they came faster than the disk took
	// them, or could not be encoded, or were in memory when ddtop ended.
	Refused, Lost int64
	// GivenUp is how many were dropped after many tries, or a long time, although others were taken.
	GivenUp int64
	// LastSent is when it took something last; zero: never. LastError is what is wrong now, "" when the last try went well.
	LastSent  time.Time
	LastError string
	// AsideError is why the profiles that are set aside are not taken, "" while none is.
	AsideError string
	Spool      spool.Stats
}

// Pusher hands periods to destinations. Its methods may be called from any goroutine.
type Pusher struct {
	lanes []*lane
	wg    sync.WaitGroup
}

// New starts sending to the routes what is in their queues, and what Add adds. It logs what a person who looks after it has to
// know: what could not be sent or was lost, and when that is over.
func New(routes []Route, log *slog.Logger) *Pusher {
	p := new(Pusher)
	for _, r := range routes {
		l := &lane{Route: r, log: log.With("to", r.String()), changed: make(chan struct{}, 1), closing: make(chan struct{}), random: rand.Float64, apart: make(map[string]*apart)}
		l.intake.more = make(chan struct{}, 1)
		l.ctx, l.cancel = context.WithCancel(context.Background())
		p.lanes = append(p.lanes, l)
		p.wg.Go(l.spool)
		p.wg.Go(l.send)
	}
	return p
}

// Add takes a period to be sent to all destinations. It encodes it, and waits for neither disk nor network.
func (p *Pusher) Add(period *Period) {
	for _, l := range p.lanes {
		payload, err := l.Encode(period)
		if err == nil {
			payload.fill(period)
			var data []byte
			if data, err = payload.marshal(); err == nil {
				l.offer(data)
				continue
			}
		}
		l.lost(1)
		l.log.Error("a profile could not be encoded", "pid", period.Process.PID, "err", err)
	}
}

// Close sends what is there, once each, until ctx ends, and stops. What then is left stays in the queues; it is told how much
// that is, and what of it is lost. Nothing may be added any more. It returns when ctx has ended at the latest, whatever disk or
// network do.
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

// Stats returns the figures of all destinations.
func (p *Pusher) Stats() []Stats {
	out := make([]Stats, len(p.lanes))
	for i, l := range p.lanes {
		out[i] = l.figures()
	}
	return out
}

// lane is a route at work: one goroutine writes to the spool, one sends from it.
type lane struct {
	Route
	log    *slog.Logger
	intake intake
	// changed says that there is something in the queue; closing is closed when it is time to end. ctx ends what is being sent.
	changed chan struct{}
	closing chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
	random  func() float64 // 0 to 1
	remark  string         // the last one; of the goroutine that sends
	round   round          // of the goroutine that sends
	unkept  bool           // it was told that the disk does not keep marks
	apart   map[string]*apart

	mu       sync.Mutex
	stats    Stats
	spooled  bool      // the goroutine that spools has ended
	troubled time.Time // since when sending fails; zero: it does not
	sayAt    time.Time // when it is said next that it still does
	disk     bool      // it has been told that the disk fails
	// sayFullAt is when it is said next that the queue is full.
	sayFullAt time.Time
}

func (l *lane) offer(data []byte) {
	if dropped := l.intake.add(data); dropped > 0 {
		l.lost(dropped)
		l.log.Warn("profiles were dropped: the spool's disk takes them too slowly", "dropped", dropped)
	}
}

func (l *lane) lost(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Lost += int64(n)
}

func (l *lane) figures() Stats {
	l.mu.Lock()
	s := l.stats
	l.mu.Unlock()
	s.Destination, s.Spool = l.String(), l.Queue.Stats()
	return s
}

// tellWhatIsLeft says, at the end, what was not sent.
func (l *lane) tellWhatIsLeft() {
	waiting := l.intake.left()
	l.lost(waiting)
	s := l.figures()
	lost := s.Spool.InMemory + waiting
	if kept := s.Spool.Count - s.Spool.InMemory; kept > 0 {
		l.log.Info("profiles are left in the spool for the next start", "profiles", kept, "err", s.LastError)
	}
	if lost > 0 {
		l.lost(s.Spool.InMemory)
		l.log.Warn("profiles are lost: they could not be sent before the end, and are not on disk", "profiles", lost, "err", s.LastError)
	}
}
