package rivals

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
)

// servingScript is a program of ten threads, 30 frames deep. Each thread serves requests of about 20 ms one after the
// other, 50 a second. Each request has its own environment (env), as large as a real server makes it. The route of all
// requests is a Rails route.
const servingScript = `
def deep(n, env)
  n == 0 ? answer(env) : deep(n - 1, env)
end
def answer(env)
  from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) - from < 0.0005
  sleep 0.019
end
def call(env)
  deep(30, env)
end
headers = (1..34).to_h { |i| ["HTTP_X_#{i}", "value #{i}"] }
10.times do |k|
  Thread.new do
    n = 0
    loop do
      n += 1
      path = "/orders/#{n}"
      call(headers.merge("REQUEST_METHOD" => "GET", "PATH_INFO" => path, "QUERY_STRING" => +"", "REQUEST_PATH" => path, "REQUEST_URI" => path,
        "HTTP_HOST" => "host #{k}", "action_dispatch.request.path_parameters" => { controller: "orders", action: "show", id: n.to_s }))
    end
  end
end
puts "up"
$stdout.flush
$stdin.gets
`

// requestPairs is the number of comparisons of ddtop's cost with and without reading requests. budgetPairs is the
// number of comparisons of ddtop's rates, with a limit on its cost.
const requestPairs, budgetPairs = 7, 7

// BenchmarkRequests measures how much the reading of requests adds to ddtop's cost. It does so on ten threads that
// serve nothing, on ten threads that serve 500 requests a second, and on Rails under load. Measurements with and
// without the reading of requests alternate.
func BenchmarkRequests(b *testing.B) {
	path, ruby := buildOwn(b), theRuby(b)
	for _, program := range []struct{ name, script string }{{"none", costScript(2, 8, 0.05)}, {"500-a-second", servingScript}} {
		b.Run(program.name, func(b *testing.B) {
			p := ruby.Start(b, program.script, rubytest.Options{})
			p.Expect(b, "up")
			for range b.N {
				compareRequests(b, path, p.PID)
			}
		})
	}
	b.Run("rails", func(b *testing.B) {
		wrk := rubytest.Program(b, "wrk", "wrk")
		app := servertest.StartRails(b, 2, 5)
		serve(b, wrk, app, 10, railsLength) // so that all code is loaded and cached before the measurement
		stop := underLoad(b, wrk, app)
		defer stop()
		for range b.N {
			compareRequests(b, path, app.Workers[0])
		}
	})
}

// compareRequests reports what the reading of requests costs on one process. At full rates, this is the additional CPU
// time in percent. With the default limit of ddtop's cost, the reading lowers ddtop's rates instead. For this case,
// compareRequests reports the rates with and without requests.
func compareRequests(b *testing.B, path string, pid int) {
	b.Helper()
	with, without := inTurns(b, requestPairs, pid, stat(path, "with", "--overhead", "off"), stat(path, "without", "--overhead", "off", "--no-requests"))
	var more []float64
	for i := range with {
		more = append(more, 100*(with[i].share/without[i].share-1))
	}
	low, high := medianInterval(more)
	b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
	b.ReportMetric(median(more), "more-%")
	b.ReportMetric(low, "more-low-%")
	b.ReportMetric(high, "more-high-%")
	reportCosts(b, "with", with)
	reportCosts(b, "without", without)
	with, without = inTurns(b, budgetPairs, pid, stat(path, "budget"), stat(path, "budget-without", "--no-requests"))
	reportCosts(b, "budget", with)
	reportCosts(b, "budget-without", without)
}

// ownCost is how much of a CPU a profiler took, in percent, and the profiler's report about its work.
type ownCost struct {
	share float64
	said  sampled
	// from and until are the beginning and the end of the measurement by CLOCK_MONOTONIC. Only inRounds sets them.
	from, until time.Duration
}

// inTurns measures two profilers in turns. It measures each of them as often as the parameter pairs says.
func inTurns(b *testing.B, pairs, pid int, one, other meter) (ones, others []ownCost) {
	b.Helper()
	measured := func(m meter) (c ownCost) {
		c.share, c.said = m.cost(b, pid, costLength)
		return c
	}
	for i := range pairs {
		if i%2 == 0 { // alternate the order, so that changes of the machine affect both equally
			ones = append(ones, measured(one))
		}
		others = append(others, measured(other))
		if i%2 == 1 {
			ones = append(ones, measured(one))
		}
	}
	return ones, others
}

func reportCosts(b *testing.B, name string, costs []ownCost) {
	b.Helper()
	var shares, locks, stacks []float64
	for _, c := range costs {
		shares, locks, stacks = append(shares, c.share), append(locks, c.said.lockHz), append(stacks, c.said.stackHz)
	}
	b.ReportMetric(median(shares), name+"-%")
	reportRates(b, name, locks, stacks)
}
