package pushing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ddtop/ddtop/export/page"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
	"github.com/ddtop/ddtop/push/files"
	"github.com/ddtop/ddtop/push/status"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// stepEvery is the interval at which findings of processes are compared with what was told.
	stepEvery = time.Second
	// captureNS is how much a capture has before a finding, and after it was told, in ns.
	captureNS = int64(30 * time.Second)
	// ringNS is how long samples are kept for captures. A message can come half a minute after the
	// condition began. ringBytes bounds them for each process, in bytes.
	ringNS    = 4 * captureNS
	ringBytes = 8e6
	// maxOrders bounds the captures of a process that are not complete.
	maxOrders = 8
)

// Watch says what is done with the findings of processes. Its methods do nothing if it is nil.
type Watch struct {
	// Rules are the same as a screen's. Alerts sends messages. It is nil if none are wanted.
	Rules  *findings.Rules
	Alerts *push.Pusher
	// Captures sends captures, to the place that Place says for a file's name. It is nil without captures.
	Captures *push.Pusher
	Place    func(file string) string

	board *alert.Board
	// capturing bounds the memory and the CPU time of captures: one is made at a time.
	capturing sync.Mutex
	writing   sync.WaitGroup
}

// begin makes a Watch ready to work.
func (w *Watch) begin() {
	w.board = alert.NewBoard()
	if w.Alerts != nil {
		w.board.Tell = func(m *alert.Message) { alert.Send(w.Alerts, m) }
	}
}

// close sends the remaining messages and waits for captures in progress.
func (w *Watch) close(end context.Context, log *slog.Logger) {
	if w == nil {
		return
	}
	var all sync.WaitGroup
	if w.Alerts != nil {
		all.Go(func() { w.Alerts.Close(end) })
	}
	if w.Captures != nil {
		if end.Err() == nil { // otherwise processes are still read, and a new capture may begin
			made := make(chan struct{})
			go func() { w.writing.Wait(); close(made) }()
			select {
			case <-made:
			case <-end.Done():
				log.Warn("captures are lost: making them has not come back")
			}
		}
		w.Captures.Close(end)
	}
	all.Wait()
}

// step tells what is due until ctx ends.
func (w *Watch) step(ctx context.Context) {
	if w != nil {
		run.Every(ctx, stepEvery, w.board.Step)
	}
}

// finish tells what is known at the end.
func (w *Watch) finish() {
	if w != nil {
		w.board.Finish(time.Now())
	}
}

// tell adds figures of findings.
func (w *Watch) tell(f *status.Figures) {
	if w == nil {
		return
	}
	f.Watched = true
	f.Findings, f.LeftOut = w.board.Counts()
	if w.Alerts != nil {
		f.Alerts = w.Alerts.Stats()
	}
	if w.Captures != nil {
		f.Captures = w.Captures.Stats()
	}
}

// watched is a process whose findings are watched. Its methods do nothing if it is nil.
type watched struct {
	*Watch
	one      *pushed
	log      *slog.Logger
	on       *alert.Followed
	stream   *stream.Stream
	findings *findings.Findings
	dueNS    int64

	history *recording.History // nil without captures
	orders  chan order
	waiting []order // the orders whose time has not come
	lastNS  int64
}

// order is a capture. base is its name without its end.
type order struct {
	base         string
	note         string
	since        time.Time
	fromNS, toNS int64
}

func (w *Watch) join(one *pushed, log *slog.Logger) *watched {
	if w == nil {
		return nil
	}
	p, dict := one.src.Process(), one.src.Dictionary()
	x := &watched{Watch: w, one: one, log: log, stream: stream.New(p), orders: make(chan order, maxOrders)}
	blame, requests := account.NewBlame(x.stream, dict), account.NewRequests(x.stream, dict, account.MaxBlameWindowNS)
	x.findings = findings.New(x.stream, p, dict, blame, requests, w.Rules)
	var capture func(*alert.Finding) alert.Capture
	if w.Captures != nil {
		var err error
		if x.history, err = recording.NewHistory(ringNS, ringBytes); err != nil {
			log.Error("no captures are made of a process", "err", err)
		} else {
			capture = x.capture
		}
	}
	x.on = w.board.Join(alert.Process{Process: pushProcess(p), Tags: *one.tags.Load()}, capture)
	return x
}

// feed adds a sample.
func (w *watched) feed(s *sampler.Sample, states []gvl.ThreadState) {
	if w == nil {
		return
	}
	w.stream.Feed(s, states)
	w.lastNS = s.TimeNS
	if w.history != nil {
		_ = w.history.Append(s) // the one error is a sample beyond the format's limits: it is left out
	}
	if s.TimeNS < w.dueNS {
		return
	}
	w.dueNS = s.TimeNS + stepEvery.Nanoseconds()
	var list []alert.Finding
	for _, x := range w.findings.Current() {
		if x.UntilNS == 0 {
			list = append(list, w.told(&x, s))
		}
	}
	w.on.Set(time.Now(), *w.one.tags.Load(), list)
	w.carryOut(s.TimeNS, false)
}

// told is a finding in words, with the trace of its first thread.
func (w *watched) told(x *findings.Finding, s *sampler.Sample) alert.Finding {
	f := alert.Finding{
		Rule: x.ID, Severity: x.Severity.String(), Title: flamegraph.Printable(x.Title), Text: flamegraph.Printable(x.Text),
		Next: flamegraph.Printable(x.Next), Endpoint: flamegraph.Printable(x.Endpoint), Explains: x.Explains,
		Since: w.one.onClock(w.one.src.Process()).WallTime(x.SinceNS),
	}
	for i := range s.Threads {
		if t := &s.Threads[i]; len(x.Threads) > 0 && t.ID == x.Threads[0] {
			f.Trace, f.Span = t.Serving.Trace, t.Serving.Span
		}
	}
	return f
}

// capture orders a capture, and returns where it will be. It is empty if too many are waiting.
func (w *watched) capture(f *alert.Finding) alert.Capture {
	p := w.one.src.Process()
	base := safefile.DatedName(p.Title, p.PID, time.Now()) + "-" + f.Rule
	select {
	case w.orders <- order{base: base, note: f.Title + ": " + f.Text, since: f.Since}:
		return alert.Capture{Recording: w.Place(base + ".ddtop"), Page: w.Place(base + ".html")}
	default:
		return alert.Capture{}
	}
}

// carryOut makes the captures that are complete. With all it makes every capture that was ordered.
func (w *watched) carryOut(nowNS int64, all bool) {
	for more := true; more; {
		select {
		case o := <-w.orders:
			o.fromNS = nowNS - time.Since(o.since).Nanoseconds() - captureNS
			o.toNS = nowNS + captureNS
			w.waiting = append(w.waiting, o)
		default:
			more = false
		}
	}
	for len(w.waiting) > 0 && (all || nowNS >= w.waiting[0].toNS) {
		o := w.waiting[0]
		w.waiting = w.waiting[1:]
		w.writing.Go(func() { w.write(o) })
	}
}

// write makes the files of a capture, and sends them.
func (w *watched) write(o order) {
	w.capturing.Lock()
	defer w.capturing.Unlock()
	p, dict := w.one.onClock(w.one.src.Process()), w.one.src.Dictionary()
	notes := []sampler.Note{{AtNS: o.toNS - captureNS, Text: o.note}}
	var end *sampler.End
	if e, ok := w.one.src.End(); ok {
		end = &e
	}
	var rec, html bytes.Buffer
	err := w.history.SaveAs(&rec, p, dict, o.fromNS, o.toNS+1, end, notes)
	n := page.NewIncident(p, dict, w.Rules)
	err = errors.Join(err, w.history.Range(o.fromNS, o.toNS+1, n.Feed))
	n.Finish()
	n.Notes, n.Heap = notes, w.one.counted.Load()
	if err = errors.Join(err, page.WriteIncident(&html, n)); err != nil {
		w.log.Error("a capture could not be made", "file", o.base, "err", err)
		return
	}
	for _, f := range []struct {
		end  string
		body []byte
	}{{".ddtop", rec.Bytes()}, {".html", html.Bytes()}} {
		w.Captures.Offer(p.PID, func(push.Destination) (push.Payload, error) {
			at := p.WallTime(o.toNS)
			header := map[string]string{files.FileHeader: o.base + f.end}
			return push.Payload{Header: header, PID: p.PID, Title: p.Title, Service: w.one.service(), From: at, To: at, Body: f.body}, nil
		})
	}
}

// leave ends the watching of a process, which has ended or cannot be read. If ddtop itself ends, its findings go
// on. leave does not wait for captures: the last profile comes first.
func (w *watched) leave(ending, ended bool) {
	if w == nil {
		return
	}
	if ending {
		w.on.Stop()
	} else {
		w.on.Leave(time.Now(), ended)
	}
	w.carryOut(w.lastNS, true)
}
