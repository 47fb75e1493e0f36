package ruby

import (
	_ "embed"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

//go:embed testdata/handled.rb
var handledProgram string

// toldException is what a thread itself reports about the exception that it handles ($!): its class, and the message
// with which it was made. It is null if there is no exception, or if its class has no name.
type toldException []string

// text returns the text that ddtop should show for the exception.
func (e toldException) text(values bool) string {
	switch {
	case len(e) == 0:
		return ""
	case !values || e[1] == "":
		return e[0]
	}
	message := e[1]
	if len(message) > 200 {
		for message = message[:200]; !utf8.ValidString(message); message = message[:len(message)-1] {
		}
		message += "…"
	}
	return e[0] + ": " + message
}

// TestHandled compares the exceptions that ddtop finds with the exceptions that the threads report themselves. It also
// does so after collections and a compaction, and with code that a JIT has compiled.
func TestHandled(t *testing.T) {
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			t.Run(v.Name, func(t *testing.T) {
				p := r.Start(t, handledProgram, v.Apply(rubytest.Options{}))
				var readers []*Reader
				for _, command := range []string{"", "gc", "compact"} {
					if command != "" {
						p.Send(t, command)
					}
					told := make(map[string]toldException)
					p.JSON(t, &told)
					if readers == nil {
						readers = []*Reader{openReaderWith(t, p.PID, Options{Values: true}), openReaderWith(t, p.PID, Options{})}
					}
					for i, rd := range readers {
						handledAsTold(t, r, rd, told, i == 0)
					}
				}
			})
		}
	})
}

// handledAsTold takes samples until ddtop has shown the same exceptions of all threads as the threads themselves
// report.
func handledAsTold(t *testing.T, r rubytest.Ruby, rd *Reader, told map[string]toldException, values bool) {
	t.Helper()
	var s sampler.Sample
	left := make(map[string]string)
	for name, e := range told {
		left[name] = e.text(values)
	}
	for deadline := time.Now().Add(r.Timeout()); len(left) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("not said, values %v: %q", values, left)
		}
		if err := rd.Read(sampler.StackTick, &s); err != nil {
			if notNow(err) {
				continue
			}
			t.Fatal(err)
		}
		for i := range s.Threads {
			th := &s.Threads[i]
			if th.Quality&sampler.StackFresh == 0 || th.Quality&sampler.StackFailed != 0 {
				continue
			}
			info, _ := rd.dict.Thread(th.ID)
			got, want := rd.dict.Exception(th.Serving.Exception), told[info.Name].text(values)
			if got == want {
				delete(left, info.Name)
			} else if got != "" {
				t.Errorf("%q handles %q, it says %q", info.Name, got, want)
				delete(left, info.Name)
			}
		}
	}
}
