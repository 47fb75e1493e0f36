package cli_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// nativeScript has a thread that Ruby does not know, because C code made it. The thread sleeps in the C library.
// Another thread waits in a library whose frames ddtop can find only by the frame pointer.
const nativeScript = `
require "fiddle"
LIBC = Fiddle.dlopen(nil)
def c(name, *args)
  types = args.map { |a| a.is_a?(Integer) ? Fiddle::TYPE_LONG : Fiddle::TYPE_VOIDP }
  Fiddle::Function.new(LIBC[name], types, Fiddle::TYPE_LONG).call(*args)
end
ID = Fiddle::Pointer.malloc(8)
c("pthread_create", ID, nil, Fiddle::Pointer[LIBC["pause"]], nil)
Thread.new { Thread.current.name = "in libffi"; c("poll", nil, 0, -1) }
Thread.new { Thread.current.name = "asleep"; sleep }
puts "ready"
$stdout.flush
$stdin.gets
`

// TestDumpHasNativeFrames: dump shows C functions between Ruby's frames, and also the stacks of threads that Ruby does
// not know. If ddtop cannot read native frames, dump says so instead. With --own, dump shows no frames of libraries.
func TestDumpHasNativeFrames(t *testing.T) {
	p := rubytest.One(t).Start(t, nativeScript, rubytest.Options{})
	p.Expect(t, "ready")
	const frames, functions = `(    at .*\n)*`, `    at lib[a-z]* \(\d+ functions?\)\n`
	wanted := []*regexp.Regexp{
		regexp.MustCompile(`(?m)^main .*\n  .*\n    at (.* \[libc\]|libc \(.*)\n` + frames + functions +
			`    at (Kernel|IO)#gets `),
		regexp.MustCompile(`(?m)^"asleep" .*\n  .*\n` + frames + `    at pthread_cond_wait \[libc\]\n` + frames +
			`    at Kernel#sleep `),
		regexp.MustCompile(`(?m)^"in libffi" .*\n  .*\n(  \(outer native frames are missing: libffi .*\)\n)?` +
			frames + `    at poll \[libc\]\n` + frames + `    at libffi `),
		regexp.MustCompile(`(?m)^native threads that Ruby doesn't know:\n(  .*\n)*    at pause \[libc\]\n`),
	}
	var text string
	for until := time.Now().Add(rubytest.Timeout); len(wanted) > 0; {
		if time.Now().After(until) {
			t.Fatalf("no %s in\n%s", wanted[0], text)
		}
		r := run(t, "dump", "-p", strconv.Itoa(p.PID))
		r.want(t, 0)
		if text = r.out; wanted[0].MatchString(text) {
			wanted = wanted[1:]
		}
	}
	if own := run(t, "dump", "-p", strconv.Itoa(p.PID), "--own"); strings.Contains(own.out, "[libc]") {
		t.Errorf("--own has frames of libraries:\n%s", own.out)
	}
}

// TestDumpOfAnotherMachineSaysNoNativeFrames: if native stacks cannot be read, dump says so once.
func TestDumpOfAnotherMachineSaysNoNativeFrames(t *testing.T) {
	rubytest.Long(t)
	rubytest.EachForeign(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, "puts 'ready'; $stdout.flush; gets", rubytest.Options{})
		p.Expect(t, "ready")
		dump := run(t, "dump", "-p", strconv.Itoa(p.PID))
		dump.want(t, 0)
		if want := "\nno native stacks: native stacks are read on x86_64 only\n"; strings.Count(dump.out, want) != 1 {
			t.Errorf("no %q in\n%s", want, dump.out)
		}
	})
}
