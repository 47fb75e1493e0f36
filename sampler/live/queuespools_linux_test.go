package live_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// pumaPools is a program that makes three thread pools with Puma's own code, which the test puts before it. One pool
// has two requests in an Array. The second has seven requests in a Queue, as in Puma 7 and later. The third is the
// control server's pool.
const pumaPools = `
module Puma
  def self.set_thread_name(name); end
end
load "./puma/thread_pool.rb"
$stdout.sync = true
busy = Puma::ThreadPool.new("srv", 1, 3) { sleep }
5.times { |i| busy << i }
sleep 0.001 until busy.spawned == 3 && busy.waiting == 0 && busy.backlog == 2
idle = Puma::ThreadPool.new("srv", 2, 4) { sleep }
sleep 0.001 until idle.spawned == 2 && idle.waiting == 2
queue = Queue.new
8.times { |i| queue << i }
queue.pop
idle.instance_variable_set(:@todo, queue)
control = Puma::ThreadPool.new("ctl", 1, 1) { sleep }
sleep 0.001 until control.waiting == 1
puts [busy, idle].map { |p| [p.spawned, p.spawned - p.waiting, p.instance_variable_get(:@todo).size].join(" ") }.join(", ")
sleep
`

// TestPumaPoolsOfReleases: on each Ruby, ddtop must find the thread pools of Puma's own code, with requests in an Array
// or in a Queue. It must leave out the pool of the control server.
func TestPumaPoolsOfReleases(t *testing.T) {
	ruby := rubytest.Program(t, "ruby", "ruby")
	path, err := exec.Command(ruby, "-e", `puts Gem::Specification.find_by_name("puma").full_gem_path + "/lib/puma/thread_pool.rb"`).Output()
	if err != nil {
		rubytest.Skip(t, "needs Puma 5: apt-get install puma")
	}
	code, err := os.ReadFile(strings.TrimSpace(string(path)))
	if err != nil || !strings.Contains(string(code), "def initialize(name, min, max, ") {
		rubytest.Skip(t, "needs Puma 5: apt-get install puma (%v)", err)
	}
	script := "Dir.mkdir('puma')\nFile.write('puma/thread_pool.rb', <<'END_OF_PUMA')\n" + string(code) + "\nEND_OF_PUMA\n" + pumaPools
	rubytest.EachRelease(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, script, rubytest.Options{})
		if said := p.Line(t); said != "3 3 2, 2 0 7" {
			t.Fatal(said)
		}
		s := openLive(t, p.PID)
		pool := func(threads, busy, most, queued int64) sampler.Pool {
			return sampler.Pool{Kind: sampler.PoolPuma, Threads: threads, Busy: busy, Max: most, Queued: queued, Clients: -1}
		}
		x, err := s.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := x.Queues.Pools
		slices.SortFunc(got, func(a, b sampler.Pool) int { return int(a.Max - b.Max) })
		if !slices.Equal(got, []sampler.Pool{pool(3, 3, 3, 2), pool(2, 0, 4, 7)}) {
			t.Errorf("%+v", got)
		}
	})
}
