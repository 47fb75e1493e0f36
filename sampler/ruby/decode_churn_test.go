package ruby

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// churnProgram makes a method, calls it and removes it, again and again, with collections (and compactions) in between.
// So Ruby frees iseqs, methods and names, and uses their addresses for others. Each method is called with its own
// number as the argument. So the VM stack shows which method it really is, whatever name ddtop reads.
const churnProgram = `
$stdout.sync = true
class Churn
  def hold; 300.times { |i| i * i }; end
end
Thread.new { STDIN.gets; exit! }
puts "ready"
n = 0
churn = Churn.new
loop do
  n += 1
  Churn.class_eval("def churn_#{n}(number)\n  hold\nend", "churn_#{n}.rb", 1)
  churn.__send__("churn_#{n}", n)
  Churn.send(:remove_method, "churn_#{n}")
  GC.start if n % 10 == 0
  GC.compact if n % 100 == 0 && GC.respond_to?(:compact) && ARGV.include?("compact")
end
`

// TestDecodeChurn: the program replaces its code all the time. The numbers on the VM stack show which methods are
// really called. The names that ddtop finds must fit these numbers.
func TestDecodeChurn(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, mode := range []string{"collect", "compact"} {
			t.Run(mode, func(t *testing.T) {
				p := r.Start(t, churnProgram, rubytest.Options{Args: []string{mode}})
				p.Expect(t, "ready")
				g := openTarget(t, p.PID)
				churn(t, g)
			})
		}
	})
}

// churnDeadline limits how long the test waits for enough methods. A compaction of 3.1 takes tens of milliseconds, and
// far more on a busy machine.
const churnDeadline = 3 * time.Minute

// churnTimes returns a factor by which tests of freed code run longer. It is the number in the environment variable
// DDTOP_CHURN.
func churnTimes(t *testing.T) int {
	s := os.Getenv("DDTOP_CHURN")
	if s == "" {
		return 1
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("DDTOP_CHURN=%s is not a number of times", s)
	}
	return n
}

func churn(t *testing.T, g *realTarget) {
	gcAt := func(field string) attach.Address {
		at := g.vm.Table.Offset("rb_vm_struct.objspace")
		if at < 0 {
			at = int(g.off(t, "rb_vm_struct.gc.objspace"))
		}
		return g.word(t, g.vm.Addr+attach.Address(at)) + g.off(t, "rb_objspace."+field)
	}
	count, major := gcAt("profile.count"), gcAt("profile.major_gc_count")
	ec := g.word(t, g.vm.MainThread+g.off(t, "rb_thread_struct.ec"))
	low := g.word(t, ec)
	end := low + 8*g.word(t, ec+8)
	fs := g.dec.FrameSize()

	const window = 32 // number of frames that are read
	var ec1, ec2 [24]byte
	frames1, frames2 := make([]byte, window*fs), make([]byte, window*fs)
	values := make([]byte, 4096)
	again := make([]byte, len(values))
	var gc [16]byte
	checked, torn, failed := 0, 0, 0
	distinct, reasons := make(map[string]bool), make(map[string]int)
	const enough, enoughDistinct = 1000, 20
	least := time.Duration(churnTimes(t)) * time.Second
	began := time.Now()
	for time.Since(began) < least || (checked < enough || len(distinct) < enoughDistinct) && time.Since(began) < least+churnDeadline {
		from := end - attach.Address(len(frames1))
		ranges := []attach.Range{
			{Addr: ec, Buf: ec1[:]}, {Addr: from, Buf: frames1}, {Addr: low, Buf: values},
			{Addr: ec, Buf: ec2[:]}, {Addr: from, Buf: frames2}, {Addr: low, Buf: again}, {Addr: count, Buf: gc[:8]}, {Addr: major, Buf: gc[8:]},
		}
		if _, err := g.proc.ReadBatch(ranges); err != nil {
			t.Fatal(err)
		}
		cfp := attach.Address(le64(ec1[16:]))
		if ec1 != ec2 || cfp < from || cfp >= end {
			torn++
			continue
		}
		skip := int(cfp - from)
		if !bytes.Equal(frames1[skip+frameISeq:], frames2[skip+frameISeq:]) {
			torn++
			continue
		}
		if err := g.dec.Revalidate(time.Now().UnixNano(), sampler.GC{Valid: true, Count: le64(gc[:]), MajorCount: le64(gc[8:])}); err != nil {
			t.Fatal(err)
		}
		raw := code.Stack{End: end, CFP: cfp, Frames: frames1[skip:], Values: values, ValuesAt: low, Running: true}
		id, info, err := g.dec.Decode(&raw)
		if err != nil || info.FailedNames > 0 {
			failed++ // the decoder reports the failure
			if err == nil {
				err = g.dec.LastNameError()
			}
			reasons[err.Error()]++
			continue
		}
		want := ""
		for f := frames1[skip:]; len(f) >= 2*fs; f = f[fs:] {
			// The test checks the name of the method that calls the method hold. Its only local variable is right below
			// its environment on the stack.
			at := attach.Address(le64(f[code.FrameEP:])) - 24
			if at < low || at+8 > low+attach.Address(len(values)) {
				continue
			}
			number := le64(values[at-low:])
			// Two copies of the frames can be equal although the method was called again in between. So compare the
			// argument, too.
			if number&1 == 0 || number != le64(again[at-low:]) {
				continue
			}
			base, path, ok := g.dec.Known(attach.Address(le64(f[frameISeq:])))
			if !ok || !strings.HasPrefix(base, "churn_") {
				continue
			}
			want = fmt.Sprintf("churn_%d", number>>1)
			checked++
			distinct[want] = true
			if base != want || path != want+".rb" {
				t.Errorf("a frame of %s was taken for %s of %s", want, base, path)
			}
			found := false
			for _, frame := range g.frames(id) {
				// Line 3 is the end of the method. ddtop may also report line 1, if it does not know the line.
				found = found || frame.Label == "Churn#"+want && frame.Path == want+".rb" && frame.Line >= 1 && frame.Line <= 3
			}
			if !found {
				t.Errorf("no frame of %s among %v", want, g.frames(id))
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("Ruby %s: %d frames of %d methods checked; %d reads torn, %d stacks failed", g.vm.Version, checked, len(distinct), torn, failed)
	for reason, n := range reasons {
		t.Logf("  %d x %s", n, reason)
	}
	if checked < enough || len(distinct) < enoughDistinct {
		rubytest.TooSeldom(t, "only %d frames of %d methods were checked", checked, len(distinct))
	}
}
