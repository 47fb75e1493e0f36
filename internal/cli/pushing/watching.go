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
	// stepEvery is how often ddtop updates its board (list) of findings and sends messages about them.
	stepEvery = time.Second
	// captureNS is how much time a capture covers before a finding, and again after the message about it, in ns.
	captureNS = int64(30 * time.Second)
	// ringNS is how long samples are kept in memory for captures, in ns. It must be long, because a message can come
	// half a minute after its finding began. ringBytes limits the samples that are kept for each process, in bytes.
	ringNS    = 4 * captureNS
	ringBytes = 8e6
	// maxOrders limits how many captures of one process can wait to be made.
	maxOrders = 8
)

// Watch handles the findings about all processes. The methods of a nil Watch do nothing.
type Watch struct {
	// Rules are the rules of the findings, the same as on a screen. Alerts sends messages about findings. It is nil if
	// the user wants no messages.
	Rules  *findings.Rules
	Alerts *push.Pusher
	// Captures sends captures. Place returns the URL or path at which a file of a capture can be found later. Both are
	// nil if the user wants no captures.
	Captures *push.Pusher
	Place    func(file string) string

	board *alert.Board
	// capturing is locked while ddtop makes a capture. It makes captures one by one to limit memory and CPU time.
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

// close waits until the current captures are made, and closes the two Pushers. The Pushers send their unsent messages
// and captures until the context in the parameter end is done.
func (w *Watch) close(end context.Context, log *slog.Logger) {
	if w == nil {
		return
	}
	var all sync.WaitGroup
	if w.Alerts != nil {
		all.Go(func() { w.Alerts.Close(end) })
	}
	if w.Captures != nil {
		if end.Err() == nil { // otherwise new captures could still begin while Wait waits
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

// step updates the findings and sends messages about them, every stepEvery until ctx ends.
func (w *Watch) step(ctx context.Context) {
	if w != nil {
		run.Every(ctx, stepEvery, w.board.Step)
	}
}

// finish passes the last messages about findings to Alerts. Call it before close.
func (w *Watch) finish() {
	if w != nil {
		w.board.Finish(time.Now())
	}
}

// tell adds the figures about findings to the status page.
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

// watched is a process in which ddtop watches for findings. The methods of a nil watched do nothing.
type watched struct {
	*Watch
	one      *pushed
	log      *slog.Logger
	on       *alert.Followed
	stream   *stream.Stream
	findings *findings.Findings
	dueNS    int64

	history *recording.History // nil if the user wants no captures
	orders  chan order
	waiting []order // orders whose toNS has not passed
	lastNS  int64
}

// order is a capture that ddtop will make later. base is the name of its files without the suffix.
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
		_ = w.history.Append(s) // an error is only possible for a sample beyond the format's limits, which is left out
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

// told converts a finding into the form for messages. If the finding's first thread works for a distributed trace, told
// adds the IDs of the trace and the span.
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

// capture orders a capture for a finding, and returns where its files will be. The result is empty if too many captures
// already wait to be made.
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

// carryOut makes the ordered captures whose end, toNS, has passed. If all is true, it makes every ordered capture.
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

// write makes the files of a capture and sends them.
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

// leave stops watching a process that has ended or cannot be read. If ddtop itself is ending, leave sends no message
// that the process's findings have ended. leave does not wait until captures are made, because the last profile is sent
// only after leave.
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
