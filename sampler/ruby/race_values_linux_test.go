package ruby

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

//go:embed testdata/requests.rb
var requestsProgram string

// seenRequest has the texts that one reading found for a request. All texts of the same request end with the same
// "-THREAD-NUMBER".
type seenRequest struct {
	texts  []string
	thread int64
	number uint64
}

// odd returns the texts that belong to another request or thread. It is empty if there are none.
func (s *seenRequest) odd(thread string) string {
	end := fmt.Sprintf("-%s-%d", strings.TrimPrefix(thread, "t"), s.number)
	for _, text := range s.texts {
		if len(text) < 3 || text[1:] != end {
			return fmt.Sprintf("%q of request %s", text, end)
		}
	}
	if fmt.Sprintf("t%d", s.thread) != thread {
		return fmt.Sprintf("thread %d's", s.thread)
	}
	return ""
}

// readRequest reads the request that a scope serves, its exception, and one of its fiber's variables.
func readRequest(g *realTarget, ec attach.Address, scopes []code.Scope, at *code.Scope, into *seenRequest) error {
	o := g.dec.Objects
	*into = seenRequest{texts: into.texts[:0]}
	text := func(v uint64, err error) error {
		if err != nil {
			return err
		}
		s, err := o.Text(v)
		into.texts = append(into.texts, s)
		return err
	}
	env, err := o.Word(at.Locals.At(at.EP, at.Locals.Find("env")))
	if err != nil {
		return err
	}
	var values [5]uint64
	if err := o.Lookup(env, []string{"PATH_INFO", "thread", "number", "params", "session"}, values[:]); err != nil {
		return err
	}
	for i, v := range values {
		if v == 0 {
			return fmt.Errorf("value %d is missing", i)
		}
	}
	if err := text(values[0], nil); err != nil {
		return err
	}
	if into.thread, err = o.Int(values[1]); err != nil {
		return err
	}
	if into.number, err = o.Uint(values[2]); err != nil {
		return err
	}
	into.number -= 1 << 62
	var params [2]uint64
	if err := o.Lookup(values[3], []string{"controller", "action"}, params[:]); err != nil {
		return err
	}
	if err := text(params[0], nil); err != nil {
		return err
	}
	name, _, err := o.Ivar(values[4], "@name")
	if err := text(name, err); err != nil {
		return err
	}
	if err := o.FiberLocals(ec, func(name string, v uint64) (bool, error) { return false, text(v, nil) }); err != nil {
		return err
	}
	exception, _, err := g.dec.Errinfo(scopes, ec)
	if err != nil || exception == 0 {
		return err
	}
	message, _, err := o.Ivar(exception, "mesg")
	return text(message, err)
}

// TestNoMixedValues: threads serve one request after another, and ddtop reads the values of their requests twice. If
// both readings are equal, all values belong to the same request and the same thread.
func TestNoMixedValues(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, args := range [][]string{nil, {"compact"}} {
			p := r.Start(t, requestsProgram, rubytest.Options{Args: args})
			p.Expect(t, "ready")
			g := openTarget(t, p.PID)
			readRequests(t, g, r)
			p.Stop(t)
		}
	})
}

func readRequests(t *testing.T, g *realTarget, r rubytest.Ruby) {
	t.Helper()
	type thread struct {
		name   string
		at, ec attach.Address
		last   uint64
	}
	var threads []thread
	deadline := time.Now().Add(r.Timeout())
	for len(threads) < 3 {
		threads = threads[:0]
		for _, at := range g.threads(t) {
			if name := g.name(t, at); strings.HasPrefix(name, "t") {
				threads = append(threads, thread{name: name, at: at, ec: g.word(t, at+g.off(t, "rb_thread_struct.ec"))})
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("its threads were not found")
		}
	}
	o, dec := g.dec.Objects, g.dec
	var seen []heap.Witness
	var got seenRequest
	var scopes []code.Scope
	samples, all, wrong, failed, rejected, mixed, tried := 0, 0, 0, 0, 0, 0, 0
	deadline = time.Now().Add(raceTime)
	for ; samples < valueSamples && time.Now().Before(deadline); tried++ {
		th := &threads[tried%len(threads)]
		cfp, end := g.word(t, th.ec+16), g.word(t, th.ec)+8*g.word(t, th.ec+8)
		frames := make([]byte, max(end, cfp)-cfp)
		if len(frames) > 1<<16 || g.proc.Read(cfp, frames) != nil {
			continue
		}
		var err error
		if scopes, err = dec.Scopes(frames[:len(frames)/dec.FrameSize()*dec.FrameSize()], scopes); err != nil {
			failed++
			continue
		}
		var serve *code.Scope
		for i := range scopes {
			if name, _, _ := dec.Known(scopes[i].ISeq); name == "serve" && scopes[i].Locals.Find("env") == 0 {
				serve = &scopes[i]
			}
		}
		if serve == nil {
			continue
		}
		err = o.Read(func() error {
			seen = seen[:0]
			o.Record(&seen)
			defer o.Record(nil)
			return readRequest(g, th.ec, scopes, serve, &got)
		})
		if err != nil {
			failed++
			continue
		}
		same, err := o.Unchanged(seen)
		if err != nil {
			t.Fatal(err)
		}
		odd := got.odd(th.name)
		if !same {
			rejected++
			if odd != "" {
				mixed++
			}
			continue
		}
		if got.number != th.last { // only then is it certain that the thread has run since the last reading
			th.last = got.number
			samples++
		}
		all++
		if odd != "" {
			wrong++
			t.Errorf("%s serves request %d, and has %s; in sample %d", th.name, got.number, odd, samples)
		}
	}
	rubytest.Report(t, "%s: %d samples of requests, %d of them each of another one; %d with a value of another; "+
		"%d rejected, %d of them mixed, %d failed, of %d tries", r, all, samples, wrong, rejected, mixed, failed, tried)
	if samples < valueSamples/racedShare {
		rubytest.TooSeldom(t, "only %d samples in %v", samples, raceTime)
	}
}
