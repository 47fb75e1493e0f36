package ui

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/page/processes"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// maxEndedShown is how many ended processes the screen keeps, with their history. If more have ended, it drops the
// oldest.
const maxEndedShown = 16

// fleet is the screen for several processes. Each process has its own Store of data and its own Model of the screen.
// Messages such as keys go to the Model of the process that is shown.
type fleet struct {
	opt   scene.Options
	group sampler.Group
	page  *processes.Page
	shown *scene.Member
	// opened is true if the user has opened at least one process.
	opened bool

	mu      sync.Mutex // guards the following fields
	members []*scene.Member
	// models are the screens of the processes that the user has opened.
	models map[*scene.Member]*Model
	// presenting is true if directories are hidden. It applies to all processes, not only to the one that is shown, and
	// also to processes that join later.
	presenting bool
	joined     int
	err        error // the error of a Source that could not be shown
}

func newFleet(o scene.Options) *fleet {
	f := &fleet{opt: o, group: o.Group, models: make(map[*scene.Member]*Model)}
	f.page = processes.New(f)
	return f
}

// join adds a process. The returned member is nil if it cannot be added.
func (f *fleet) join(src sampler.Source) *scene.Member {
	store, err := newStore(src, f.opt)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.err = err
		return nil
	}
	redact.HideDirectories(store.Dict, f.presenting)
	f.joined++
	m := &scene.Member{Store: store, Number: f.joined, Parent: parentOf(f.group, src), Path: []int{f.joined}}
	for i := len(f.members) - 1; i >= 0; i-- { // search for the latest process with the parent's PID
		if p := f.members[i]; p.Store.Process().PID == m.Parent {
			m.Path = append(slices.Clone(p.Path), f.joined)
			break
		}
	}
	f.members = append(f.members, m)
	f.forgetEnded()
	return m
}

// parentOf returns the PID of the parent of a Source's process. It is zero if it is not known.
func parentOf(g sampler.Group, src sampler.Source) int {
	if g == nil {
		return 0
	}
	list, _ := g.Relatives()
	for i := range list {
		if list[i].Source == src {
			return list[i].Parent
		}
	}
	return 0
}

// present hides the names of directories in all processes, or shows them again.
func (f *fleet) present(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.presenting = on
	for _, m := range f.members {
		redact.HideDirectories(m.Store.Dict, on)
	}
}

// forgetEnded drops the oldest ended processes if there are more than maxEndedShown. It never drops the process that is
// shown. The caller holds mu.
func (f *fleet) forgetEnded() {
	ended := 0
	for _, m := range f.members {
		if m.Store.State().Done {
			ended++
		}
	}
	for i := 0; i < len(f.members) && ended > maxEndedShown; {
		if m := f.members[i]; m.Store.State().Done && m != f.shown {
			f.members = slices.Delete(f.members, i, i+1)
			delete(f.models, m)
			ended--
			continue
		}
		i++
	}
}

// model returns the screen of a process. It is nil if the user has never opened the process.
func (f *fleet) model(of *scene.Member) *Model {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.models[of]
}

// screen returns the screen that is shown.
func (f *fleet) screen() *Model { return f.model(f.shown) }

// Relatives returns the processes that the group has found, sampled or not. forgotten is how many ended processes were
// dropped from the list.
func (f *fleet) Relatives() (list []sampler.Relative, forgotten int) { return f.group.Relatives() }

// List returns the processes in the order of the screen: each process is followed by its descendants.
func (f *fleet) List() []*scene.Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.members)
	slices.SortFunc(out, func(a, b *scene.Member) int { return slices.Compare(a.Path, b.Path) })
	return out
}

// open shows another process, in the same view and at the same moment as the process that was shown before.
func (f *fleet) open(to *scene.Member) error {
	from := f.shown
	if to == from {
		return nil
	}
	model := f.model(to)
	if model == nil {
		m, err := NewModel(to.Store, f.opt)
		if err != nil {
			return err
		}
		attach(m, f)
		model = m
	}
	f.mu.Lock()
	f.shown, f.models[to] = to, model
	f.mu.Unlock()
	if from != nil {
		was := f.model(from)
		takeOver(model, was)
		// The user may have frozen the previous process's screen at a moment. Then its Store keeps the old data of this
		// moment. This is not necessary while the process is not shown.
		from.Store.Hold(was.Flame.Base != nil)
	}
	return nil
}

// attach adds view 8 and the keys that lead to other processes to a process's screen. Only the screen for several
// processes has these.
func attach(m *Model, f *fleet) {
	m.fleet = f
	m.pages[scene.PageProcesses] = f.page
	m.Page = scene.PageProcesses
	setKeys(m, scene.Offers{Processes: true, Requests: m.Offers.Requests})
}

// takeOver copies to m the choices that the user has made on another process's screen.
func takeOver(m, from *Model) {
	m.Width, m.Height, m.Colors = from.Width, from.Height, from.Colors.Copied()
	if m.Page = from.Page; m.Page == scene.PageThread { // this view shows a thread of the other process
		m.Page = scene.PageThreads
	}
	m.Focus, m.Span = from.Focus, from.Span
	m.HeldNS, m.came = 0, nil
	m.message.Clear()
	m.pressed, m.moreKey = from.pressed, from.moreKey
	if m.Presenting != from.Presenting {
		present(m)
	}
	m.Flame.FlameLook = from.Flame.FlameLook
	m.WeightsOf = scene.FlameRange{}
}

// step opens the next (+1) or previous (-1) process.
func (f *fleet) step(d int) tea.Cmd {
	list := f.List()
	i := slices.Index(list, f.shown)
	if len(list) == 0 {
		return nil
	}
	return f.openAndRefresh(list[((i+d)%len(list)+len(list))%len(list)])
}

// openAndRefresh opens a process and draws it.
func (f *fleet) openAndRefresh(to *scene.Member) tea.Cmd {
	if err := f.open(to); err != nil {
		f.screen().message.Fail(err.Error())
		return nil
	}
	f.opened = true
	f.page.Follow(to)
	m := f.screen()
	m.Refresh()
	return m.fetch()
}

// which returns the two numbers of a text such as "process 3 of 8": the number of m's process in the list, counted from
// 1, and how many processes there are.
func (f *fleet) which(m *Model) (number, of int) {
	list := f.List()
	return slices.IndexFunc(list, func(x *scene.Member) bool { return f.model(x) == m }) + 1, len(list)
}

// memberMsg is the result of a command that a process's screen started. The field to is this process. When the command
// ends, the user may be looking at another process.
type memberMsg struct {
	to  *scene.Member
	msg tea.Msg
}

// address wraps the results of a command in a memberMsg, so that they reach the process whose screen started the
// command.
func address(to *scene.Member, cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() tea.Msg {
		switch msg := cmd().(type) {
		case tea.BatchMsg:
			for i := range msg {
				msg[i] = address(to, msg[i])
			}
			return msg
		case page.Msg, savedMsg, recordingMsg:
			return memberMsg{to, msg}
		default:
			return msg
		}
	}
}

// Init starts the clock of the screen.
func (f *fleet) Init() tea.Cmd { return f.screen().Init() }

// Update passes a message to the process that is shown. A memberMsg goes to the process in its field to.
func (f *fleet) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	to := f.shown
	if x, ok := msg.(memberMsg); ok {
		to, msg = x.to, x.msg
	}
	wasShown := to == f.shown
	_, cmd := f.model(to).Update(msg)
	if wasShown { // if the key has opened another process, the command belongs to that process
		to = f.shown
	}
	return f, address(to, cmd)
}

// View returns the modes of the terminal, such as whether it reports the mouse. The painter draws the picture.
func (f *fleet) View() tea.View { return f.screen().View() }

// picture returns the picture of the process that is shown.
func (f *fleet) picture() (g *canvas.Grid, number int) { return f.screen().picture() }

// runGroup shows the processes of o.Group until the user quits or ctx ends.
func runGroup(ctx context.Context, o scene.Options) error {
	f := newFleet(o)
	sampling, stop := context.WithCancel(ctx)
	first, failed := make(chan *scene.Member, 1), make(chan error, 1)
	go func() {
		all, err := sampler.FollowEach(sampling, f.group, func(src sampler.Source) func() {
			m := f.join(src)
			if m == nil {
				return func() {}
			}
			select {
			case first <- m:
			default:
			}
			return func() { m.Store.Run(sampling) }
		})
		close(first)
		<-all
		failed <- err
	}()
	err := f.showFirst(ctx, first)
	stop()
	if followErr := <-failed; !errors.Is(followErr, sampler.ErrEnded) {
		err = errors.Join(err, followErr)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var stores []*store.Store
	for _, m := range f.members {
		stores = append(stores, m.Store)
		err = errors.Join(err, m.Store.State().Err)
	}
	return errors.Join(err, store.LeaveRecordings(stores...), f.err)
}

// showFirst waits until the group has its first process, and then shows the screen.
func (f *fleet) showFirst(ctx context.Context, first <-chan *scene.Member) error {
	select {
	case m, ok := <-first:
		if !ok {
			return ErrNoSource
		}
		if err := f.open(m); err != nil {
			return err
		}
		return show(ctx, f, f.opt)
	case <-ctx.Done():
		return nil
	}
}

// longestRecording returns the length of the longest recording in a group, because the history must be long enough for
// it. It is zero if no length is known.
func longestRecording(g sampler.Group) time.Duration {
	var longest time.Duration
	list, _ := g.Relatives()
	for _, r := range list {
		if x, ok := r.Source.(interface{ Duration() time.Duration }); ok {
			longest = max(longest, x.Duration())
		}
	}
	return longest
}

// processKeys returns the keys that lead from one process to another in every view.
func processKeys() []scene.Binding {
	return []scene.Binding{
		{Keys: []string{")", "shift+0"}, Show: "( )", Short: "process", Help: "the previous and the next process, in every view",
			Do: on(func(m *Model) tea.Cmd { return m.fleet.step(+1) })},
		{Keys: []string{"(", "shift+9"}, Do: on(func(m *Model) tea.Cmd { return m.fleet.step(-1) })},
	}
}
