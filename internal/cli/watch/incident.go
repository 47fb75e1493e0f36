package watch

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// spareBytes is how many bytes must be free below the folder's size limit, so that a recording may continue. A
	// single write adds less than this.
	spareBytes = 256 << 10
	// abandonAfter limits how long a recording waits for a disk that does not answer. Its unwritten samples need names
	// in ddtop's memory, and ddtop cannot keep these names for longer.
	abandonAfter = 5 * time.Minute
)

// errAbandoned is the error of a recording that ddtop gave up because its disk did not answer.
var errAbandoned = fmt.Errorf("the disk has not answered for %v", abandonAfter)

// incident writes the recording of an incident, which is a time in which conditions of --when are true. It takes the
// samples from the history in memory. It has its own goroutine, so that sampling never waits for the disk.
type incident struct {
	of      *watched
	cause   measure.Cause
	fromNS  int64 // time of the first sample to record
	beganNS int64
	orders  chan order    // holds only the newest order
	done    chan struct{} // closed when the goroutine ends
	// busyNS is when the goroutine began to carry out its current order, in ns since started. It is zero between
	// orders.
	busyNS  atomic.Int64
	started time.Time

	// The following fields belong to the writing goroutine. Other goroutines may use them only after done is closed.
	writtenNS int64 // samples are written up to this time
	// firstNS and lastNS are the times of the first and the last sample written.
	firstNS, lastNS int64
	missingNS       int64
	// full is true if the recording ended because of the size limit of the folder.
	full   bool
	failed error
	// lost is the error of an earlier recording of the same incident. It is nil if there was no earlier recording, or
	// if ddtop could write it.
	lost error
}

// order asks the writing goroutine to write samples up to the time toNS. If last is true, no further order follows.
type order struct {
	toNS int64
	last bool
	end  *sampler.End
}

// startIncident begins to write an incident.
func (w *watched) startIncident(cause measure.Cause, fromNS, beganNS int64, findings []findings.Finding) *incident {
	first, _ := w.history.Span()
	in := &incident{of: w, cause: cause, fromNS: max(fromNS, first), beganNS: beganNS, orders: make(chan order, 1), done: make(chan struct{}), started: time.Now()}
	in.writtenNS = in.fromNS
	in.lost, w.lost = w.lost, nil
	note := cause.Text
	for i, f := range findings {
		if text := f.String(); text != cause.Text && i < maxNoted {
			note += "; " + text
		}
	}
	go in.run(note)
	return in
}

// maxNoted limits how many findings the note in a recording lists.
const maxNoted = 5

// write asks the writing goroutine to write the samples up to o.toNS. If the previous order still waits, o replaces it.
// Do not call write again after an order whose field last is true.
func (in *incident) write(o order) {
	select {
	case <-in.orders:
	default:
	}
	in.orders <- o
}

// busy returns how long the writing goroutine has worked on its current order, or zero if it has no order.
func (in *incident) busy() time.Duration {
	since := in.busyNS.Load()
	if since == 0 {
		return 0
	}
	return time.Since(in.started) - time.Duration(since)
}

func (in *incident) run(note string) {
	defer close(in.done)
	in.failed = in.record(note)
}

// record carries out orders to write samples, until the last order or an error.
func (in *incident) record(note string) (err error) {
	in.busyNS.Store(int64(time.Since(in.started)) + 1)
	defer in.busyNS.Store(0)
	w := in.of
	process := w.src.Process()
	at := process.WallTime(in.beganNS)
	file, err := w.folder.begin(keptFileName(process.Title, process.PID, at, in.cause.Condition.Name()))
	if err != nil {
		return err
	}
	rec, err := recording.NewWriter(file, process, w.src.Dictionary())
	if err != nil {
		_, closed := file.close(false, false)
		return errors.Join(err, closed)
	}
	var last order
	failed := rec.Note(sampler.Note{AtNS: in.beganNS, Text: note})
	for failed == nil && !last.last {
		in.busyNS.Store(0)
		last = <-in.orders
		in.busyNS.Store(int64(time.Since(in.started)) + 1)
		if failed = in.copy(rec, last.toNS); failed != nil {
			break
		}
		if in.busy() > abandonAfter {
			failed = errAbandoned
			break
		}
		enough, err := w.folder.trim(spareBytes)
		if failed = err; failed == nil && !enough && !last.last {
			in.full = true
			break
		}
	}
	if err = rec.Close(last.end); failed != nil {
		err = failed
	}
	kept, closed := file.close(err == nil, rec.Written() > 0 && !errors.Is(err, errAbandoned))
	if err = errors.Join(err, closed); err != nil {
		if kept != "" {
			err = fmt.Errorf("%w; what was recorded until then is in %s", err, kept)
		}
		return err
	}
	e := w.event("wrote", in.cause)
	e.Path, e.StartNS, e.EndNS, e.Bytes, e.MissingNS = kept, in.firstNS, in.lastNS, rec.Bytes(), in.missingNS
	w.events.Add(e)
	_, err = w.folder.trim(0)
	return err
}

// copy writes the samples from the history in memory to the recording, up to the time toNS.
func (in *incident) copy(rec *recording.Writer, toNS int64) error {
	history := in.of.history
	if first, _ := history.Span(); first > in.writtenNS && in.firstNS != 0 {
		in.missingNS += first - in.writtenNS
	}
	var failed error
	write := func(s *sampler.Sample) {
		if failed == nil {
			failed = rec.Write(s)
			in.firstNS, in.lastNS = cmp.Or(in.firstNS, s.TimeNS), s.TimeNS
		}
	}
	var err error
	if in.lastNS == 0 {
		err = history.Range(in.writtenNS, toNS+1, write)
	} else {
		err = history.After(in.lastNS, toNS+1, write)
	}
	in.writtenNS = max(in.writtenNS, in.lastNS+1)
	return errors.Join(failed, err)
}

func (w *watched) event(what string, cause measure.Cause) report.WatchEvent {
	p := w.src.Process()
	return report.WatchEvent{Time: time.Now(), Event: what, PID: p.PID, Program: p.Title, Condition: cause.Condition.String(), Text: cause.Text}
}
