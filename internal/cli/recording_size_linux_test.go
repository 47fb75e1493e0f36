//go:build verify

package cli_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/recording"
)

// hundred is a program of 100 threads. 16 threads serve requests: they run Ruby code, ask a database over a socket,
// take a lock and sleep briefly. 16 threads imitate the database. The other threads rest, or wake up about once a
// second.
const hundred = `
require 'socket'
STDOUT.sync = true
listener = TCPServer.new('127.0.0.1', 0)
port = listener.addr[1]
Thread.new do
  Thread.current.name = "database"
  loop do
    c = listener.accept
    Thread.new do
      Thread.current.name = "database connection"
      while (l = c.gets)
        sleep 0.002
        c.puts l
      end
    end
  end
end
class App
  def initialize(port) = (@port, @lock, @cache = port, Mutex.new, {})
  def parse(i) = (0..60).map { |k| "#{i}-#{k}" }
  def render(x) = x.map { |s| s.upcase.reverse }.join(",")
  def work(i)
    a = parse(i)
    case i % 3
    when 0 then render(a)
    when 1 then a.sort_by { |s| s.hash }.each_slice(5).map { |z| z.sum(0) { |y| y.size } }
    else a.group_by(&:size).transform_values { |v| render(v) }
    end
  end
  def query(s, i) = (s.puts(i); s.gets)
  def serve(n)
    s = TCPSocket.new('127.0.0.1', @port)
    i = n
    loop do
      i += 1
      query(s, i)
      5.times { work(i) }
      @lock.synchronize { @cache[i % 100] = work(i) } if i % 4 == 0
      sleep 0.005 + rand * 0.02
    end
  end
end
app, idle = App.new(port), Queue.new
16.times { |n| Thread.new { Thread.current.name = "puma srv tp %03d" % n; app.serve(n) } }
50.times { |n| Thread.new { Thread.current.name = "idle %03d" % n; idle.pop } }
16.times { |n| Thread.new { Thread.current.name = "timer %03d" % n; loop { sleep 0.5 + rand } } }
puts "up"
sleep
`

// TestRecordingSize: a recording of 100 threads, a third of them busy, takes less than 2 MB a minute at the default
// rates.
func TestRecordingSize(t *testing.T) {
	p := rubytest.One(t).Start(t, hundred, rubytest.Options{})
	p.Expect(t, "up")
	path := filepath.Join(t.TempDir(), "hundred.ddtop")
	run(t, "record", "-p", strconv.Itoa(p.PID), "-d", "30s", "--format", "ddtop", "-o", path).want(t, 0, "wrote "+path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	samples := 0
	for _, b := range r.Blocks() {
		samples += b.Samples
	}
	threads := 0
	if s, err := r.At(1 << 62); err != nil || s == nil {
		t.Fatalf("the last sample: %v", err)
	} else {
		threads = len(s.Threads)
	}
	minute := float64(info.Size()) * 60 / r.Duration().Seconds()
	rubytest.Report(t, "%d threads, %.0f samples a second: %.2f MB a minute (aim 2)", threads, float64(samples)/r.Duration().Seconds(), minute/1e6)
	if threads < 95 || minute > 2e6 {
		t.Errorf("%d threads take %.2f MB a minute", threads, minute/1e6)
	}
}
