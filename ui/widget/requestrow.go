package widget

import (
	"regexp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// WorkKey identifies a row: a request or job in progress, or an endpoint (a route or a class of jobs).
type WorkKey struct {
	Number   sampler.WorkNumber
	Endpoint scene.EndpointKey
}

func (k WorkKey) ID() WorkKey { return k }

// RequestRow is a row of the table of requests: a request or job in progress.
type RequestRow struct {
	*account.Request
	ThreadName string
	Name       string
	AgeNS      int64
	// State is the state of the thread that works for the request, at the moment on the screen. It is nil if this is
	// not known, or if no thread works for the request at present.
	State *gvl.ThreadState
	Away  bool
	// FiberWaits is true if the request is suspended, because the fiber that works for it waits. In this case the field
	// "at" has the data of this fiber, and otherwise the data of the thread.
	FiberWaits bool
	Forms      []string // texts for State, the longest first
	What       string   // what the request asks a database or another service, or its place in the code
	at         sampler.Serving
}

func (w *RequestRow) ID() WorkKey { return WorkKey{Number: w.Work.Number} }

// NewRequestRow returns the row of a request. i is the index of the request's thread in the scene, or -1 if the scene
// does not have this thread.
func NewRequestRow(sc *scene.Scene, q *account.Request, i int) *RequestRow {
	w := &RequestRow{Request: q, ThreadName: canvas.Clean(gvl.ThreadName(q.Thread, sc.Dict)), Name: canvas.Clean(scene.EndpointName(q.Work.Kind, q.Work.Endpoint)),
		AgeNS: max(min(q.ToNS, sc.AtNS)-q.FromNS, 0)}
	at, ok := sc.Served.ServingOf[q.Thread]
	switch {
	case i < 0 || !sc.Threads[i].Known:
	case q.InProgress && !q.Suspended && !sc.Frozen && (!ok || sc.Dict.Work(at.Work).Number != q.Work.Number):
		// Recorded changes of the GVL show that the thread works for the request. But no sample has read the thread's
		// stack after these changes, so the place in the code is unknown.
		w.inState(sc, i)
	case !ok || sc.Dict.Work(at.Work).Number != q.Work.Number: // another fiber of the thread runs
		w.Away = true
		if w.FiberWaits = q.Suspended && q.Waits && !sc.Frozen; w.FiberWaits {
			w.at = q.Serving
			if w.What = sc.Asks(w.at); w.What == "" {
				w.What = scene.OwnPlace(sc.Dict, q.Stack)
			}
		}
	default:
		w.at = at
		w.inState(sc, i)
		if w.What = sc.Asks(at); w.What == "" {
			w.What = scene.OwnPlace(sc.Dict, w.State.Stack)
		}
	}
	return w
}

// inState sets the row's state to the state of a thread. i is the thread's index in the scene.
func (w *RequestRow) inState(sc *scene.Scene, i int) {
	state := sc.Threads[i].State
	state.SinceNS = max(state.SinceNS, w.FromNS) // the state cannot be older than the request
	w.State = &state
	w.Forms = sc.RequestForms(state)
}

// Matches reports whether a search finds the request. It looks at the request's thread, route and present state, and at
// its path if the screen shows paths.
func (w *RequestRow) Matches(re *regexp.Regexp, sc *scene.Scene) bool {
	return re.MatchString(w.ThreadName) || re.MatchString(w.Name) || re.MatchString(w.Values(sc)) || re.MatchString(w.What) ||
		len(w.Forms) > 0 && re.MatchString(w.Forms[0])
}

// Detail returns the details of a request that do not fit into its row.
func (w *RequestRow) Detail(sc *scene.Scene) (name, rest string) {
	name = w.Name
	if s := w.Values(sc); s != "" {
		name += "  " + s
	}
	var parts []string
	if len(w.Forms) > 0 {
		parts = append(parts, w.Forms[0])
	}
	if s := sc.Asks(w.at); s != "" {
		parts = append(parts, s)
	}
	if w.State != nil {
		if s := scene.OwnPlace(sc.Dict, w.State.Stack); s != "" {
			parts = append(parts, "in "+s)
		}
	}
	if _, vague := account.Length(w.AgeNS, w.BeginSlackNS()); !w.AtLeast && !vague {
		parts = append(parts, "since "+sc.Process.WallTime(w.FromNS).Format("15:04:05.00"))
	}
	if w.Work.QueuedNS > 0 {
		parts = append(parts, "queued "+units.Duration(w.Work.QueuedNS)+" before")
	}
	return name, strings.Join(parts, "   ")
}

// Age returns how old the request was at the moment on the screen: "1.84 s", or "≥12 s" if it may be older. If the
// readings at its beginning were too far apart, only an upper bound is known: "≤20 ms". Age returns "new" if nothing is
// known yet.
func (w *RequestRow) Age() string {
	switch {
	case w.AtLeast && w.AgeNS == 0:
		return "new"
	case w.AtLeast:
		return "≥" + units.Duration(w.AgeNS)
	}
	return scene.LengthText(account.Length(w.AgeNS, w.BeginSlackNS()))
}

// Values returns the request's path or the job's arguments. It returns "" if the screen hides names.
func (w *RequestRow) Values(sc *scene.Scene) string {
	if sc.HidesNames() {
		return ""
	}
	return canvas.Clean(w.Work.Values)
}

// Urgent returns a number for sorting requests by their state. It is the index of the state in gvl.ByUrgency.
func (w *RequestRow) Urgent() int {
	if w.State == nil {
		return len(gvl.ByUrgency)
	}
	return slices.Index(gvl.ByUrgency[:], w.State.State)
}

// DrawEndpoint writes a route or a class of jobs. After it come the values of the request, such as its path, if they
// are known.
func DrawEndpoint(a canvas.Area, name, values string, t *style.Theme) {
	x := a.Put(0, 0, canvas.Cut(name, a.W), t.Bold())
	if verb, _, ok := strings.Cut(name, " "); ok && verb == strings.ToUpper(verb) {
		a.Put(0, 0, canvas.Cut(verb, a.W), t.Dimmed())
	}
	const least = 4
	if values != "" && a.W-x > least {
		a.Put(x+2, 0, canvas.Cut(values, a.W-x-2), t.Dimmed())
	}
}
