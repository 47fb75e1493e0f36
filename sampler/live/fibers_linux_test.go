package live_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// fibersProgram has fibers in all states. Some are suspended: at several depths, in two threads, or by an Enumerator.
// Others have not begun, have finished, are running, or have resumed the running fiber. The program prints the stacks
// of the suspended fibers. Ruby can report these stacks from 3.0 on.
const fibersProgram = `
require "json"
def deep(n); n.zero? ? Fiber.yield : deep(n - 1); end
def park(fibers)
  5.times { |i| fibers << Fiber.new { deep(i % 2 * 3) }.tap(&:resume) }
  fibers << Fiber.new { [1, 2].each { |x| Fiber.yield x } }.tap { |f| 2.times { f.resume } }
  fibers
end
$keep = []
list = [3, 4].each # its fiber is made by next
list.next
$keep << list
$made = 3.times.map { Fiber.new { } }
$made << Fiber.new { 1 }.tap(&:resume) # finished
$main = park([])
$other = []
Thread.new do
  park($other)
  Fiber.new { Fiber.new { sleep }.resume }.resume # the inner one runs, the outer one resumed it
end.tap { |t| sleep 0.01 until t.stop? && $other.size == 6 }
said = ($main + $other).map do |f|
  f.respond_to?(:backtrace_locations) ? f.backtrace_locations.map { |l| "#{l.path}:#{l.lineno}" } : nil
end
puts JSON.generate(stacks: said)
$stdout.flush
STDIN.read`

// TestFibers: ddtop must find all suspended fibers of a process, with the same stacks that Ruby itself reports.
func TestFibers(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := r.Start(t, fibersProgram, rubytest.Options{})
		var said struct{ Stacks [][]string }
		p.JSON(t, &said)
		src := open(t, p.PID, live.Options{})
		s := once(t, src)
		found, err := src.Fibers(t.Context())
		if err != nil || found.Cut {
			t.Fatalf("%v, cut: %v", err, found.Cut)
		}
		var want, got []string
		for _, stack := range said.Stacks {
			if stack == nil {
				stack = []string{"not said"}
			}
			want = append(want, strings.Join(stack, " "))
		}
		threads := map[sampler.ThreadID]int{}
		created, enumerators := 0, 0
		for _, f := range found.List {
			if f.Created {
				created++
				continue
			}
			threads[f.Thread]++
			var lines []string
			each := false
			for _, x := range frames(src.Dictionary(), f.Stack) {
				lines = append(lines, fmt.Sprintf("%s:%d", x.Path, x.Line))
				each = each || x.Label == "Enumerator#each"
			}
			if each {
				enumerators++ // the program has no reference to this fiber
				continue
			}
			got = append(got, strings.Join(lines, " "))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !r.AtLeast(3, 0) {
			got = slices.Repeat([]string{"not said"}, len(got))
		}
		if !slices.Equal(got, want) {
			t.Errorf("found\n  %s\nRuby says\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		if created != 3 || enumerators != 1 {
			t.Errorf("%d were never resumed, of 3; %d of Enumerators, of 1", created, enumerators)
		}
		if main := s.Threads[0].ID; len(threads) != 2 || threads[main] != 7 {
			t.Errorf("by thread: %v, of which 7 are the main one's, %d", threads, main)
		}
		t.Logf("found in %.1f ms", float64(found.ReadNS)/1e6)
	})
}
