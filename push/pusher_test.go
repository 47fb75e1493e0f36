package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/push/spool"
)

// fake is a destination that accepts payloads, fails or hangs, as the test says.
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

// logged returns a logger, and a function that returns what the logger wrote.
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

// TestOneDeadTheOtherUnaffected: one of two destinations accepts nothing for a while, so its payloads wait. When it
// works again, it gets its payloads in order. The other destination gets its payloads without a delay.
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
		if n := strings.Count(said(), "sending failed"); n != 2 { // once for each of the two destinations
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

// TestRests: the pause between two tries to send doubles up to a limit, minus a random part. If the destination asks
// for a longer pause, ddtop waits this long.
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

// TestRefused: if a destination refuses a payload for good, ddtop drops it and reports this. Other payloads are not
// delayed.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := logged()
		f := &fake{name: "x", err: &RefusedError{errors.New("HTTP status 403")}}
		p := New([]Route{{f, spool.InMemory(room)}}, log)
		for range 3 {
			p.Add(period("a"))
		}
		p.Add(period("")) // this period cannot be encoded
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

// TestClose: if a profile is added just before Close, Close still sends it, even if the try before it has just failed.
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

// TestRestart: if one run of ddtop could not send payloads, the next run sends them in order.
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

// TestIntake: the disk accepts nothing for a while. The intake does not grow beyond its limit, because it drops the
// oldest payloads. add never waits.
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

// TestADay simulates a day in fast time. There are three destinations: one is out of reach now and then, one is slow,
// and one never answers. ddtop is restarted every two hours. Everything that can be sent arrives, each payload once and
// in order. ddtop's memory, its open files and its spools do not grow.
func TestADay(t *testing.T) {
	minutes := 24 * 60
	if rubytest.Short(t) {
		minutes = 8 * 60 // the test is slow, because its runs wait for the disk about two thousand times
	}
	outages, slow, dead := &daily{}, &daily{each: 20 * time.Second}, &daily{err: errors.New("no route to host")}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	small := spool.Limits{Bytes: 20_000, Count: 100}
	body := strings.Repeat("x", 1000)
	minute := 0
	var descriptors, heap []int64
	for minute < minutes {
		synctest.Test(t, func(t *testing.T) {
			log, _ := logged()
			var routes []Route
			for i, d := range []*daily{outages, slow, dead} {
				limits := room
				if d == dead {
					limits = small
				}
				q, err := spool.Open(dirs[i], limits)
				if err != nil {
					t.Fatal(err)
				}
				defer q.Close()
				routes = append(routes, Route{d, q})
			}
			p := New(routes, log)
			for range 120 {
				if minute%180 == 0 {
					outages.set(errors.New("outage"))
				}
				if minute%180 == 45 {
					outages.set(nil)
				}
				p.Add(period(fmt.Sprintf("%d %s", minute, body)))
				minute++
				time.Sleep(time.Minute)
			}
			synctest.Wait()
			s := p.Stats()
			if s[2].Spool.Bytes > small.Bytes || s[2].Spool.Count < 10 || s[0].Spool.Dropped+s[1].Spool.Dropped > 0 || s[1].Spool.Count > 1 {
				t.Errorf("minute %d: %+v", minute, s)
			}
			outages.set(nil)
			p.Close(t.Context())
		})
		descriptors = append(descriptors, openDescriptors())
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = append(heap, int64(m.HeapAlloc))
	}
	for name, d := range map[string]*daily{"outages": outages, "slow": slow} {
		if d.next != minutes || d.wrong != "" {
			t.Errorf("%s: %d of %d minutes came in order; %s", name, d.next, minutes, d.wrong)
		}
	}
	first, last := heap[1], heap[len(heap)-1]
	t.Logf("heap %d KB after four hours, %d KB at the end; descriptors %v", first>>10, last>>10, descriptors)
	// The limit is above the 100 KB that ddtop itself needs, and below what a leak would need: a hundred bytes kept
	// from each profile would be 400 KB in a day.
	if last-first > 300<<10 {
		t.Errorf("the heap grew from %d KB to %d KB", first>>10, last>>10)
	}
	// The number of descriptors may become smaller, because an idle connection may have ended.
	if n := len(descriptors); descriptors[n-1] > descriptors[0] {
		t.Errorf("descriptors: %v", descriptors)
	}
}

// openDescriptors returns the number of open file descriptors of this process. It returns 0 if they cannot be counted.
func openDescriptors() int64 {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return int64(len(list))
}

// daily is a destination for TestADay. It checks that the payloads of all minutes come in order, and does not keep
// them.
type daily struct {
	each time.Duration // how long the destination takes for one payload

	mu    sync.Mutex
	err   error
	next  int
	wrong string
}

func (d *daily) String() string { return fmt.Sprintf("daily://%v", d.each) }

func (d *daily) Encode(p *Period) (Payload, error) { return Payload{Body: p.Pprof}, nil }

func (d *daily) Send(ctx context.Context, p *Payload) error {
	select {
	case <-time.After(d.each):
	case <-ctx.Done():
		return ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	var minute int
	if _, err := fmt.Sscan(string(p.Body), &minute); err != nil || minute != d.next {
		d.wrong += fmt.Sprintf("minute %d came where %d was wanted, %v. ", minute, d.next, err)
	}
	d.next++
	return nil
}

func (d *daily) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}
