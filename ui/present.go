package ui

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// shownKeys is how many key presses stand in the corner of a presentation.
const shownKeys = 5

// present begins or ends the presentation: larger spacing, no directory names, and key presses in a corner.
func present(m *Model) {
	m.presenting = !m.presenting
	m.pressed = nil
	m.dict.HideDirectories(m.presenting)
	if m.fleet != nil {
		m.fleet.present(m.presenting)
	}
	m.recordKey.renamed(&m.message)
	// What was built with the other names is built again.
	m.flame.builder, m.flame.zoom, m.flame.selected = nil, nil, nil
	for _, p := range m.pages {
		if p, ok := p.(named); ok {
			p.namesChanged()
		}
	}
	m.weightsOf = flameRange{}
	m.Refresh()
}

// pressedKeys are the last keys of a presentation.
type pressedKeys []string

func (k *pressedKeys) add(key string) {
	*k = append(*k, key)
	*k = (*k)[max(0, len(*k)-shownKeys):]
}

// draw writes them into the corner at a row.
func (k pressedKeys) draw(a canvas.Area, y int, t *style.Theme) {
	if len(k) > 0 {
		text := "  " + strings.Join(k, "  ") + "  "
		a.PutRight(y, text, canvas.Style{FG: t.Accent, BG: t.Background, Attr: canvas.Bold | canvas.Reverse})
	}
}

// hidesNames reports whether directories, users and hosts are not to be seen.
func (sc *scene) hidesNames() bool { return sc.presenting || sc.opt.Redactor != nil }

// showable is a text that may name files, without their directories where these are hidden. Those paths that are known to be in
// it may have any characters.
func (sc *scene) showable(text string, paths ...string) string {
	if !sc.hidesNames() {
		return text
	}
	if folder := sc.opt.Folder; folder != "." {
		paths = append(paths, filepath.Clean(folder)+"/", store.Absolute(folder)+"/")
	}
	if sc.opt.Redactor != nil {
		return sc.opt.Redactor.Text(text, paths...)
	}
	return sampler.BareText(text, paths...)
}

// showableState is how the source of the samples is doing, in words that name no directories where these are hidden.
func (sc *scene) showableState(s store.SourceState) store.SourceState {
	if s.Err != nil && sc.hidesNames() {
		s.Err = errors.New(sc.showable(sc.opt.Redactor.Error(s.Err)))
	}
	return s
}

// showableFindings are findings whose texts name no directories where these are hidden: some were judged before. What they may
// name are the files of their stacks, and their peers.
func (sc *scene) showableFindings(of *store.Store, list []gvl.Finding) []gvl.Finding {
	if !sc.hidesNames() {
		return list
	}
	list = slices.Clone(list)
	dict := of.Src.Dictionary()
	for i := range list {
		f := &list[i]
		var paths []string
		for _, id := range dict.Frames(f.Stack, nil) {
			frame := dict.Frame(id)
			paths = append(paths, frame.Path, frame.AbsolutePath)
		}
		p := dict.Peer(f.Peer)
		f.Text = sc.showable(f.Text, append(paths, p.Path, p.Remote, p.Local)...)
	}
	return list
}

// shareable is the description of the process for what is shared or shown.
func (sc *scene) shareable() sampler.Process {
	if sc.hidesNames() {
		return sampler.Bare(sc.process)
	}
	return sc.process
}

// leftOut says what a file that is begun now does not hold; "" when it holds all.
func (sc *scene) leftOut() string {
	switch {
	case sc.opt.Redactor != nil:
		return ", redacted"
	case sc.presenting:
		return ", without directories, command line, user and host"
	}
	return ""
}
