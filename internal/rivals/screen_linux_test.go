package rivals

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
)

const (
	// screenRows and screenCols are the terminal's size.
	screenRows = 50
	screenCols = 200
	// maxDrawn limits how much output is searched for the first row of a thread, in bytes. A drawn frame takes tens of
	// KB.
	maxDrawn = 4 << 20
	// frameTimeout limits the wait for the first row of a thread. It is long because the machine may be full.
	frameTimeout = time.Minute
	// leaveTimeout limits the wait for ddtop to end after q was pressed.
	leaveTimeout = time.Minute
	// screenSettle is how long ddtop's screen is open before its cost is measured. screenLength is the length of the
	// measurement.
	screenSettle, screenLength = 3 * time.Second, 5 * time.Second
	// firstFrames is how often BenchmarkFirstFrame measures the time to the first frame.
	firstFrames = 20
)

// screen is a ddtop in a terminal.
type screen struct {
	cmd    *exec.Cmd
	master *os.File
	begun  time.Time
	// first receives the time from the start of ddtop (exec) until the screen shows a row of a thread.
	first chan time.Duration
	ended chan error

	mu    sync.Mutex
	drawn bytes.Buffer // the output until the first row
}

// openScreen starts ddtop's screen on a process.
func openScreen(b *testing.B, path string, pid int, args ...string) *screen {
	b.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		b.Fatal(err)
	}
	defer tty.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: screenRows, Cols: screenCols}); err != nil {
		b.Fatal(err)
	}
	s := &screen{cmd: exec.Command(path, append([]string{"--pid", strconv.Itoa(pid)}, args...)...), master: master, first: make(chan time.Duration, 1), ended: make(chan error, 1)}
	s.cmd.Dir = b.TempDir()
	// The environment has its own folder for settings, so that the settings of the user who runs the benchmark have no
	// effect.
	s.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "XDG_CONFIG_HOME="+s.cmd.Dir)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.begun = time.Now()
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go s.read()
	go func() { s.ended <- s.cmd.Wait() }()
	return s
}

var escapes = regexp.MustCompile(`\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-B0])`)

// firstRow matches a row of a thread on the screen. The thread belongs to a program of this package or to Puma.
var firstRow = regexp.MustCompile(rowOf + "|puma srv")

// read reads what ddtop draws until the terminal is closed.
func (s *screen) read() {
	buf := make([]byte, 1<<16)
	seen := false
	for {
		n, err := s.master.Read(buf)
		at := time.Since(s.begun)
		if !seen && n > 0 {
			s.mu.Lock()
			s.drawn.Write(buf[:n])
			// Only the first frame has every name in one piece. Later frames draw only the cells that have changed.
			if firstRow.Match(escapes.ReplaceAll(s.drawn.Bytes(), nil)) {
				seen = true
				s.first <- at
			} else if s.drawn.Len() > maxDrawn {
				s.drawn.Reset()
			}
			s.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// row waits until the screen shows a row of a thread. It returns the time from the start of ddtop (exec) until then.
func (s *screen) row(b *testing.B) time.Duration {
	b.Helper()
	var why error
	select {
	case took := <-s.first:
		return took
	case why = <-s.ended:
	case <-time.After(frameTimeout):
		why = errors.New("it took too long")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	drawn := escapes.ReplaceAll(s.drawn.Bytes(), nil)
	b.Fatalf("no row of a thread on the screen: %v\n%.1000q", why, drawn)
	return 0
}

// leave presses q and waits until ddtop ends. It fails the benchmark if ddtop has ended before or ends with an error,
// because the measurement of such a run means nothing.
func (s *screen) leave(b *testing.B) {
	b.Helper()
	defer s.master.Close()
	select {
	case err := <-s.ended:
		b.Fatalf("the screen ended before it was to: %v", err)
	default:
	}
	if _, err := s.master.WriteString("q"); err != nil {
		b.Fatal(err)
	}
	select {
	case err := <-s.ended:
		if err != nil {
			b.Fatalf("the screen: %v", err)
		}
	case <-time.After(leaveTimeout):
		b.Fatal("the screen does not leave")
	}
}

// screenCost returns how much of a CPU ddtop takes with its screen, in percent, after the screen has shown threads.
func screenCost(b *testing.B, path string, pid int, length time.Duration) float64 {
	b.Helper()
	s := openScreen(b, path, pid)
	s.row(b)
	return s.cost(b, settle, length)
}

// screenShare is like screenCost, but passes additional arguments to ddtop. It waits longer before it measures, because
// ddtop reads every name in the first seconds.
func screenShare(b *testing.B, path string, pid int, args []string) float64 {
	b.Helper()
	return openScreen(b, path, pid, args...).cost(b, screenSettle, screenLength)
}

// cost returns the share of a CPU that the screen takes after it has settled, in percent. Then it closes the screen.
func (s *screen) cost(b *testing.B, settle, length time.Duration) float64 {
	b.Helper()
	time.Sleep(settle)
	before, _ := cpuTime(s.cmd.Process.Pid)
	from := monotonic()
	time.Sleep(length)
	after, ok := cpuTime(s.cmd.Process.Pid)
	took := monotonic() - from
	s.leave(b)
	if !ok || after == before {
		b.Fatalf("the screen took no CPU time in %v", took)
	}
	return 100 * float64(after-before) / float64(took)
}

// BenchmarkFirstFrame measures the time from ddtop's start (exec) until the screen shows a row of a thread. It uses the
// program with 10 threads, and a worker of Rails.
func BenchmarkFirstFrame(b *testing.B) {
	all := versions(b)
	b.Run("10-threads", func(b *testing.B) {
		p := theRuby(b).Start(b, costPrograms[1].script, rubytest.Options{})
		p.Expect(b, "up")
		firstFrame(b, all, p.PID)
	})
	b.Run("rails", func(b *testing.B) { firstFrame(b, all, servertest.StartRails(b, 1, 5).Workers[0]) })
}

func firstFrame(b *testing.B, all []version, pid int) {
	b.Helper()
	for range b.N {
		took := make([][]float64, len(all))
		for range firstFrames {
			for i, v := range all {
				s := openScreen(b, v.path, pid)
				took[i] = append(took[i], float64(s.row(b).Microseconds())/1e3)
				s.leave(b)
			}
		}
		b.ReportMetric(0, "ns/op") // the time is in the metrics
		for i, v := range all {
			b.ReportMetric(median(took[i]), v.name+"-ms")
			b.ReportMetric(slices.Max(took[i]), v.name+"-longest-ms")
		}
	}
}

const (
	// idleRounds is how often BenchmarkIdle measures each source of threads' states. idleSettle is the pause before a
	// measurement, in which ddtop finishes its first reads. idleLength is the length of a measurement.
	idleRounds             = 2
	idleSettle, idleLength = 33 * time.Second, 30 * time.Second
)

// BenchmarkIdle measures ddtop with its screen on a process that is idle for a long time. It reports ddtop's CPU time,
// and its memory in MB.
func BenchmarkIdle(b *testing.B) {
	own := buildOwn(b)
	p := theRuby(b).Start(b, "10.times { Thread.new { sleep } }; puts 'up'; $stdout.flush; sleep", rubytest.Options{})
	p.Expect(b, "up")
	for range b.N {
		for _, source := range sources(b, own) {
			var shares, sizes []float64
			for range pairsWanted(b, idleRounds) {
				s := openScreen(b, own, p.PID, "--source", source)
				time.Sleep(idleSettle)
				sizes = append(sizes, ownMemory(b, s.cmd.Process.Pid))
				shares = append(shares, s.cost(b, 0, idleLength))
			}
			b.ReportMetric(median(shares), source+"-%")
			b.ReportMetric(median(sizes), source+"-MB")
		}
		b.ReportMetric(0, "ns/op") // suppresses ns/op, which means nothing because the length of a run is fixed
	}
}
