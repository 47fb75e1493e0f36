package ruby

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// endingThreads is a program whose threads end in different ways on demand. A thread's name is the exception that ends
// it, or the reason why no exception does. The program keeps their Thread objects.
const endingThreads = `
class Shop; class Declined < RuntimeError; end; end
GATE = Queue.new
ENDS = {
  "Shop::Declined" => -> { raise Shop::Declined, "secret" },
  "KeyError" => -> { {}.fetch(:missing) },
  "in a fiber: IOError" => -> { Fiber.new { raise IOError }.resume },
  "Interrupt" => -> { sleep },
  "ends" => -> { begin; raise "handled"; rescue; end },
  "is killed" => -> { Thread.current.kill },
  "throws" => -> { catch(:out) { throw :out } },
}
threads = ENDS.map do |name, block|
  Thread.new { Thread.current.name = name; Thread.current.report_on_exception = false; GATE.pop; block.call }
end
sleep 0.001 until threads.all? { |t| t.status == "sleep" && t.name }
puts "ready"; $stdout.flush; $stdin.gets
ENDS.size.times { GATE << 1 }
sleep 0.001 until threads.count(&:alive?) == 1 && GATE.empty?
threads[3].raise(Interrupt)
sleep 0.001 while threads.any?(&:alive?)
threads.each { |t| begin; t.join; puts "#{t.name}="; rescue Exception => e; puts "#{t.name}=#{e.class}"; end }
$stdout.flush; $stdin.gets`

// TestEndedBy: if an exception has ended a thread, ddtop must report the class of the exception. It must be the class
// that Thread#join raises.
func TestEndedBy(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	rubytest.EachVersion(t, func(t *testing.T, ruby rubytest.Ruby) {
		p := ruby.Start(t, endingThreads, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReader(t, p.PID)
		var s sampler.Sample
		// The function until reads samples until ddtop knows n threads.
		until := func(n int) {
			for deadline := time.Now().Add(rubytest.Timeout); ; {
				if rd.Read(sampler.StackTick, &s) == nil && len(s.Threads) == n {
					return
				}
				if time.Now().After(deadline) {
					rubytest.TooSeldomNow(t, "%d threads, want %d", len(s.Threads), n)
				}
			}
		}
		const threads = 7
		until(1 + threads)
		ids := make(map[string]sampler.ThreadID)
		for _, th := range s.Threads {
			info, _ := rd.dict.Thread(th.ID)
			ids[info.Name] = th.ID
		}
		p.Send(t, "end")
		until(1)
		for range threads {
			line := p.Line(t)
			name, want, _ := strings.Cut(line, "=")
			info, ok := rd.dict.Thread(ids[name])
			if !ok || info.Exception != want || info.GoneNS == 0 {
				t.Errorf("%q was ended by %q, want %q", name, info.Exception, want)
			}
		}
	})
}
