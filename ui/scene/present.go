package scene

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/store"
)

// HidesNames reports whether the screen hides the names of directories, users and hosts.
func (sc *Scene) HidesNames() bool { return sc.Presenting || sc.Opt.Redactor != nil }

// HidesValues reports whether the screen hides the values of objects, such as Strings. Saved files never have them.
func (sc *Scene) HidesValues() bool { return sc.HidesNames() || sc.Saving }

// Showable returns a text that may name files. If the screen hides directories, Showable removes the files' directories
// from the text. paths are paths that the text may contain. They help Showable to recognize paths that have unusual
// characters.
func (sc *Scene) Showable(text string, paths ...string) string {
	if !sc.HidesNames() {
		return text
	}
	if folder := sc.Opt.Folder; folder != "." {
		paths = append(paths, filepath.Clean(folder)+"/", store.Absolute(folder)+"/")
	}
	if sc.Opt.Redactor != nil {
		return sc.Opt.Redactor.Text(text, paths...)
	}
	return redact.BareText(text, paths...)
}

// ShowableState returns the state s. If the screen hides directories, it removes them from the text of the error.
func (sc *Scene) ShowableState(s store.SourceState) store.SourceState {
	if s.Err != nil && sc.HidesNames() {
		s.Err = errors.New(sc.Showable(sc.Opt.Redactor.Error(s.Err)))
	}
	return s
}

// ShowableFindings returns findings for the screen. If the screen hides directories, it removes the directories from
// the texts of the findings. This is necessary because the texts may name files and peers, if they are from the time
// before the screen hid directories.
func (sc *Scene) ShowableFindings(of *store.Store, list []findings.Finding) []findings.Finding {
	if !sc.HidesNames() {
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
		f.Text = sc.Showable(f.Text, append(paths, p.Path, p.Remote, p.Local)...)
	}
	return list
}

// Shareable returns the description of the process without the names that the screen hides.
func (sc *Scene) Shareable() sampler.Process {
	if sc.HidesNames() {
		return redact.Bare(sc.Process)
	}
	return sc.Process
}

// LeftOut returns a text that says what a file that is saved now does not contain. It is "" if the file has everything.
func (sc *Scene) LeftOut() string {
	switch {
	case sc.Opt.Redactor != nil:
		return ", redacted"
	case sc.Presenting:
		return ", without directories, command line, user and host"
	}
	return ""
}

// LookAtSwitches reads whether ddtop follows the process by thread switches. It returns true if this has changed, so
// that the picture must be drawn again.
func (sc *Scene) LookAtSwitches() bool {
	from, ok := sc.Opt.Exact.(SwitchFollower)
	if !ok {
		return false
	}
	before := sc.Switches
	sc.Switches = from.SwitchStatus()
	s := &sc.Switches
	return s.On != before.On || s.Ended != before.Ended || s.Lost != before.Lost
}
