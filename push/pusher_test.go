package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ddtop/ddtop/push/spool"
)

// fake is a destination that does what it is told.
type fake struct {
	name string

	mu    sync.Mutex
	err   error
	took  []string
	tries []time.Time
	hangs bool
}

func (f *fake) String() string { return "fake://" + f.name }

func (f *fake) Encode(p *Period) (Payload, error) {
	if len(p.Pprof) == 0 {
		return Payload{}, errors.New("there is nothing in it")
	}
	return Payload{ContentType: "text/plain", Header: map[string]string{"X-Seq": fmt.Sprint(p.Seq)}, Body: p.Pprof}, nil
}

func (f *fake) Send(ctx context.Context, p *Payload) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries = append(f.tries, time.Now())
	if f.hangs {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return ctx.Err()
	}
	if f.err == nil {
		f.took = append(f.took, string(p.Body))
	}
	return f.err
}

func (f *fake) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) taken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.took, " ")
}

func (f *fake) tried() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.tries)
}

func period(text string) *Period {
	now := time.Now()
	return &Period{Process: Process{PID: 17, Title: "puma"}, From: now.Add(-time.Minute), To: now, Pprof: []byte(text)}
}

var room = spool.Limits{Bytes: 1 << 20, Count: 100}

// logged is a logger and what it wrote.
func logged() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return b.Write(p)
		}), nil)), func() string {
			mu.Lock()
			defer mu.Unlock()
			return b.String()
		}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestOneDeadTheOtherUnaffected: what one destination does not take waits for it alone, and comes in order when it is back.
func TestOneDeadTheOtherUnaffected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := logged()
		dead, well, hung := &fake{name: "dead", err: errors.New("connection refused")}, &fake{name: "well"}, &fake{name: "hung", hangs: true}
		p := New([]Route{{dead, spool.InMemory(room)}, {well, spool.InMemory(room)}, {hung, spool.InMemory(room)}}, log)
		want := ""
		for i := range 10 {
			text := fmt.Sprint("p", i)
			p.Add(period(text))
			want = strings.TrimSpace(want + " " + text)
			time.Sleep(time.Minute)
			if well.taken() != want {
				t.Fatalf("after %d minutes it took %q", i+1, well.taken())
			}
		}
		if dead.taken() != "" {
			t.Error("the dead one took something")
		}
		dead.set(nil)
		time.Sleep(longestRest)
		synctest.Wait()
		if dead.taken() != want {
			t.Errorf("when it was back it took %q", dead.taken())
		}
		s := p.Stats()
		if s[0].Sent != 10 || s[0].Failures == 0 || s[0].LastError != "" || s[1].Sent != 10 || s[1].Failures != 0 || s[2].Sent != 0 || s[2].Spool.Count != 10 {
			t.Errorf("figures: %+v", s)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		p.Close(ctx)
		if d := time.Since(begin); d > 4*time.Second {
			t.Errorf("closing took %v", d)
		}
		synctest.Wait()
		if n := strings.Count(said(), "sending failed"); n != 2 { // each once
			t.Errorf("said %d times that sending failed:\n%s", n, said())
		}
		for _, text := range []string{"profiles are taken again", `to=fake://hung profiles=10`} {
			if !strings.Contains(said(), text) {
				t.Errorf("it did not say %q:\n%s", text, said())
			}
		}
		if s := p.Stats(); s[2].Lost != 10 {
			t.Errorf("lost of the hung one: %+v", s[2])
		}
	})
}

// TestRests: the time between two tries grows to its limit, with chance in it, and is what was asked for where that is longer.
func TestRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := logged()
		f := &fake{name: "x", err: errors.New("no")}
		p := New([]Route{{f, spool.InMemory(room)}}, log)
		p.Add(period("a"))
		time.Sleep(time.Hour)
		synctest.Wait()
		var rests []time.Duration
		tries := f.tried()
		for i := range tries[1:] {
			rests = append(rests, tries[i+1].Sub(tries[i]))
		}
		want := firstRest
		for i, r := range rests {
			if r < want/2 || r > want {
				t.Errorf("rest %d is %v, want %v to %v", i, r, want/2, want)
			}
			want = min(2*want, longestRest)
		}
		if len(rests) < 18 {
			t.Errorf("only %d tries in an hour", len(rests))
		}
		f.set(&LaterError{20 * time.Minute, errors.New("busy")})
		time.Sleep(longestRest)
		synctest.Wait()
		before := f.tried()
		f.set(nil)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		tries = f.tried()
		if len(tries) != len(before)+1 || tries[len(tries)-1].Sub(before[len(before)-1]) < 20*time.Minute {
			t.Errorf("asked for 20 minutes: %v", tries[len(before)-1:])
		}
		p.Close(t.Context())
	})
}

// TestRefused: what will never be taken is dropped and told, and holds up nothing.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := logged()
		f := &fake{name: "x", err: &RefusedError{errors.New("HTTP status 403")}}
		p := New([]Route{{f, spool.InMemory(room)}}, log)
		for range 3 {
			p.Add(period("a"))
		}
		p.Add(period("")) // which can't be encoded
		synctest.Wait()
		f.set(nil)
		p.Add(period("b"))
		p.Close(t.Context())
		s := p.Stats()[0]
		if f.taken() != "b" || s.Refused != 3 || s.Lost != 1 || s.Sent != 1 || s.Spool.Count != 0 {
			t.Errorf("took %q, %+v", f.taken(), s)
		}
		if n := strings.Count(said(), "was refused"); n != 1 {
			t.Errorf("said %d times that it was refused:\n%s", n, said())
		}
	})
}

// TestClose: the last period is sent, also where it comes with the end and where the last try has just failed.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := logged()
		f := &fake{name: "x", err: errors.New("no")}
		p := New([]Route{{f, spool.InMemory(room)}}, log)
		p.Add(period("a"))
		time.Sleep(time.Hour)
		f.set(nil)
		p.Add(period("b"))
		begin := time.Now()
		p.Close(t.Context())
		if f.taken() != "a b" || time.Since(begin) > 0 {
			t.Errorf("took %q in %v", f.taken(), time.Since(begin))
		}
	})
}

// TestRestart: what was not sent is sent by the next one, with what belongs to it.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	run := func(f *fake, texts ...string) {
		synctest.Test(t, func(t *testing.T) {
			q, err := spool.Open(dir, room)
			if err != nil {
				t.Fatal(err)
			}
			log, _ := logged()
			p := New([]Route{{f, q}}, log)
			for _, text := range texts {
				p.Add(period(text))
			}
			p.Close(t.Context())
			if s := p.Stats()[0]; s.Lost != 0 {
				t.Errorf("lost: %+v", s)
			}
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	run(&fake{err: errors.New("no")}, "a", "b")
	f := new(fake)
	run(f, "c")
	if f.taken() != "a b c" {
		t.Errorf("took %q", f.taken())
	}
}

// TestIntake: nothing grows, and nobody waits, while the disk does not take anything.
func TestIntake(t *testing.T) {
	i := intake{more: make(chan struct{}, 1)}
	big := make([]byte, maxIntake/4)
	dropped := 0
	for range 10 {
		dropped += i.add(big)
	}
	if dropped != 6 || i.left() != 4 {
		t.Errorf("dropped %d, left %d", dropped, i.left())
	}
	if _, ok := i.next(); !ok || i.left() != 4 {
		t.Errorf("while one is written %d are left", i.left())
	}
}

// TestADay: a day in fast time with outages: every period arrives once, in order.
func TestADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := logged()
		f := new(fake)
		q, err := spool.Open(t.TempDir(), room)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		p := New([]Route{{f, q}}, log)
		var want []string
		for minute := range 24 * 60 {
			if minute%180 == 0 {
				f.set(errors.New("outage"))
			}
			if minute%180 == 45 {
				f.set(nil)
			}
			want = append(want, fmt.Sprint(minute))
			p.Add(period(want[minute]))
			time.Sleep(time.Minute)
		}
		p.Close(t.Context())
		if got := f.taken(); got != strings.Join(want, " ") {
			t.Errorf("got %.200q…", got)
		}
	})
}
