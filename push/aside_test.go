package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ddtop/ddtop/push/spool"
)

// picky is a destination that accepts all payloads except those that begin with "bad".
type picky struct {
	mu    sync.Mutex
	err   error // what Send returns for a bad payload; if it is nil, picky accepts everything
	hangs bool  // for a bad payload, Send waits until its context ends, instead of returning err
	down  bool  // Send also returns err for good payloads
	took  []string
	tries int // how often Send got a bad payload
}

func (d *picky) String() string { return "fake://picky" }

func (d *picky) Encode(p *Period) (Payload, error) { return Payload{Body: p.Pprof}, nil }

func (d *picky) Send(ctx context.Context, p *Payload) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	bad := strings.HasPrefix(string(p.Body), "bad")
	if bad {
		d.tries++
	}
	if d.err != nil && (bad || d.down) {
		if d.hangs {
			d.mu.Unlock()
			<-ctx.Done()
			d.mu.Lock()
			return ctx.Err()
		}
		return d.err
	}
	d.took = append(d.took, string(p.Body))
	return nil
}

func (d *picky) set(err error, down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.down = err, down
}

// good returns the accepted payloads that do not begin with "bad". badTries is how often ddtop tried to send a payload
// that begins with "bad".
func (d *picky) good() (list []string, badTries int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range d.took {
		if !strings.HasPrefix(text, "bad") {
			list = append(list, text)
		}
	}
	return list, d.tries
}

// of returns a period of a service.
func of(service, text string) *Period {
	p := period(text)
	p.Tags = Tags{{"service", service}}
	return p
}

var errBad = errors.New("HTTP status 500")

// TestPoisonedPayload: a destination never accepts one of the payloads. This delays no other payload, even of the same
// service. In the end ddtop drops this payload and counts it. The test tries each way in which a destination can fail.
func TestPoisonedPayload(t *testing.T) {
	for name, d := range map[string]*picky{
		"500":      {err: errBad},
		"reset":    {err: io.ErrUnexpectedEOF},
		"hangs":    {err: errBad, hangs: true},
		"429":      {err: &LaterError{time.Minute, errBad}},
		"429 long": {err: &LaterError{2 * longestAsked, errBad}},
	} {
		for _, service := range []string{"good", "other"} {
			t.Run(name+" of "+service, func(t *testing.T) {
				d := &picky{err: d.err, hangs: d.hangs}
				synctest.Test(t, func(t *testing.T) {
					log, said := logged()
					p := New([]Route{{d, spool.InMemory(room)}}, log)
					p.Add(of(service, "bad"))
					want := 0
					for range 14 * 60 {
						p.Add(of("good", fmt.Sprint("g", want)))
						want++
						time.Sleep(time.Minute)
					}
					// The test waits for 14 hours, in simulated time. In some cases, the destination has asked for a
					// pause of an hour after each of the first three tries.
					synctest.Wait()
					got, tries := d.good()
					s := p.Stats()[0]
					if len(got) != want || !slices.IsSortedFunc(got, func(a, b string) int { return cmpNumbers(a, b) }) {
						t.Errorf("%d of %d others were taken: %v", len(got), want, got)
					}
					if s.GivenUp != 1 || s.Spool.Count != 0 || s.Spool.Dropped != 0 || s.Lost != 0 {
						t.Errorf("figures: %+v", s)
					}
					if most := headTries + maxBlamed + 2; tries > most {
						t.Errorf("it was tried %d times, %d are the most", tries, most)
					}
					if n := strings.Count(said(), "is given up"); n != 1 {
						t.Errorf("it said %d times that it gave up:\n%s", n, said())
					}
					p.Close(t.Context())
				})
			})
		}
	}
}

func cmpNumbers(a, b string) int {
	var x, y int
	fmt.Sscanf(a, "g%d", &x)
	fmt.Sscanf(b, "g%d", &y)
	return x - y
}

// TestPoisonedServices: a destination refuses the payloads of many services for a while, and accepts the payloads of
// other services. The other services lose no profile, although the spool is small. ddtop tries the failing services
// less and less often. When the destination accepts them again, their latest profiles arrive.
func TestPoisonedServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := logged()
		d := &picky{err: errBad}
		p := New([]Route{{d, spool.InMemory(spool.Limits{Bytes: 1 << 20, Count: 100})}}, log)
		const services, minutes = 3 * maxProbes, 5 * 60
		for minute := range minutes {
			for s := range services {
				p.Add(of(fmt.Sprint("poison", s), "bad"))
			}
			p.Add(of("good", fmt.Sprint("g", minute)))
			time.Sleep(time.Minute)
			if got, _ := d.good(); len(got) < minute {
				t.Fatalf("after %d minutes only %d others were taken", minute+1, len(got))
			}
		}
		synctest.Wait()
		got, tries := d.good()
		s := p.Stats()[0]
		if len(got) < minutes-1 || !slices.IsSortedFunc(got, cmpNumbers) {
			t.Errorf("%d of %d were taken", len(got), minutes)
		}
		// ddtop may try each failing service once every two minutes, which is about half of longestAside. At the
		// beginning it may try more often, so the limit allows some extra tries.
		if most := services * (minutes/2 + 20); tries > most {
			t.Errorf("%d tries of what is not taken, %d are the most", tries, most)
		}
		if s.Spool.Aside == 0 || s.AsideError == "" || s.Spool.Dropped == 0 || s.LastError != "" {
			t.Errorf("figures: %+v", s)
		}
		if n := strings.Count(said(), "\n"); n > 20*services {
			t.Errorf("%d lines in the log:\n%.5000s", n, said())
		}
		d.set(nil, false)
		time.Sleep(longestAside)
		synctest.Wait()
		if s := p.Stats()[0]; s.Spool.Count != 0 || s.AsideError != "" {
			t.Errorf("when they are taken again: %+v", s)
		}
		p.Close(t.Context())
	})
}

// TestOutageBlamesNobody: if a destination accepts nothing at all, the payloads are not the reason. So ddtop drops none
// of them. All payloads arrive in order when the destination is back.
func TestOutageBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := logged()
		d := &picky{err: errBad, down: true}
		p := New([]Route{{d, spool.InMemory(room)}}, log)
		var want []string
		for i := range 50 {
			text := fmt.Sprint("g", i)
			p.Add(of(fmt.Sprint(i%7), text))
			want = append(want, text)
			time.Sleep(time.Hour)
		}
		if s := p.Stats()[0]; s.Spool.Aside != 0 || s.Spool.Count != len(want) {
			t.Errorf("while it takes nothing: %+v", s)
		}
		d.set(nil, false)
		time.Sleep(longestRest)
		synctest.Wait()
		if got, _ := d.good(); !slices.Equal(got, want) {
			t.Errorf("it took %v\n%s", got, said())
		}
		if s := p.Stats()[0]; s.GivenUp != 0 || s.Spool.Dropped != 0 || s.Spool.Aside != 0 || strings.Contains(said(), "set aside") {
			t.Errorf("%+v\n%s", s, said())
		}
		p.Close(t.Context())
	})
}

// TestTooOld: ddtop drops a payload if a try to send it fails and it is older than a week. It does this even if the
// destination accepts nothing at all.
func TestTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := logged()
		d := &picky{err: errBad, down: true}
		p := New([]Route{{d, spool.InMemory(room)}}, log)
		p.Add(of("a", "g0"))
		time.Sleep(maxAge - time.Hour)
		p.Add(of("a", "g1"))
		synctest.Wait()
		if s := p.Stats()[0]; s.GivenUp != 0 {
			t.Errorf("before: %+v", s)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if s := p.Stats()[0]; s.GivenUp != 1 || s.Spool.Count != 1 {
			t.Errorf("after: %+v", s)
		}
		p.Close(t.Context())
	})
}

// TestPoisonedSpool: an earlier run of ddtop has left payloads in the spool, and the destination never accepts some of
// them. After the start, these payloads do not delay the others. When ddtop ends, it sends everything that can be sent.
func TestPoisonedSpool(t *testing.T) {
	dir := t.TempDir()
	run := func(d *picky, length time.Duration, texts ...string) (s Stats) {
		synctest.Test(t, func(t *testing.T) {
			q, err := spool.Open(dir, room)
			if err != nil {
				t.Fatal(err)
			}
			log, _ := logged()
			p := New([]Route{{d, q}}, log)
			for _, text := range texts {
				p.Add(of(text, text))
			}
			time.Sleep(length)
			p.Close(t.Context())
			s = p.Stats()[0]
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
		})
		return s
	}
	d := &picky{err: errBad}
	run(d, 0, "bad1", "g0") // this run ends at once
	if got, _ := d.good(); !slices.Equal(got, []string{"g0"}) {
		t.Errorf("at the end it took %v", got)
	}
	run(d, time.Minute, "bad2", "g1", "g2")
	if got, _ := d.good(); !slices.Equal(got, []string{"g0", "g1", "g2"}) {
		t.Errorf("after a start it took %v", got)
	}
	d.set(nil, false)
	if s := run(d, 0); s.Sent != 2 || s.Spool.Count != 0 {
		t.Errorf("what was kept: %+v", s)
	}
}

// TestFullSpoolDropsTheHead: if the spool is full, ddtop first drops the payload that has failed and waits for its next
// try. The payloads after it stay.
func TestFullSpoolDropsTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := logged()
		d := &picky{err: errBad, down: true}
		q := spool.InMemory(spool.Limits{Bytes: 1 << 20, Count: 3})
		p := New([]Route{{d, q}}, log)
		p.Add(of("a", "bad"))
		time.Sleep(time.Hour) // the payload waits for its next try
		for i := range 3 {
			p.Add(of("a", fmt.Sprint("g", i)))
			synctest.Wait()
		}
		d.set(nil, false)
		time.Sleep(longestRest)
		synctest.Wait()
		if got, _ := d.good(); !slices.Equal(got, []string{"g0", "g1", "g2"}) {
			t.Errorf("it took %v", got)
		}
		p.Close(t.Context())
	})
}

// TestPoisonedPayloadOfRestarts: ddtop counts the failed tries of a payload across its restarts. So it drops a payload
// that is never accepted, even if ddtop is restarted every quarter of an hour.
func TestPoisonedPayloadOfRestarts(t *testing.T) {
	const restarts = 8
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &picky{err: errBad}
		givenUp, n := int64(0), 0
		for run := range restarts {
			q, err := spool.Open(folder, room)
			if err != nil {
				t.Fatal(err)
			}
			log, said := logged()
			p := New([]Route{{d, q}}, log)
			if run == 0 {
				p.Add(of("good", "bad"))
			}
			for range 15 {
				p.Add(of("good", fmt.Sprint("g", n)))
				n++
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			givenUp += int64(p.Stats()[0].GivenUp)
			p.Close(t.Context())
			if strings.Contains(said(), "does not keep") {
				t.Errorf("it said: %s", said())
			}
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := d.good(); givenUp != 1 || len(got) != n {
			t.Errorf("%d were given up, and %d of %d others were taken", givenUp, len(got), n)
		}
	})
}
