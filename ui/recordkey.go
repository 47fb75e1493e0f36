package ui

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export/snapshot"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// recordKey is the state of the key W. This key begins a recording, or ends the present one.
type recordKey struct {
	on bool // a recording is in progress
	// lost is how many samples were missing from the recording when the last picture was drawn.
	lost uint64
	// The field with says which names are left out of the recording's file. This is decided when the recording begins.
	// The field is empty if the file has all names.
	with  string
	busy  bool // the recording's file is being opened or closed
	again bool // the key was pressed again while busy is true
}

// failing tells the user that samples are missing from the current recording, or why a recording failed.
func (k *recordKey) failing(r *store.Reading, say *scene.Message) {
	if r.RecLost > k.lost && k.on {
		say.Fail(fmt.Sprintf("the disk is slow: %s samples are missing in the recording", units.Count(int64(r.RecLost))))
	}
	k.lost = r.RecLost
	if r.RecErr != nil && k.on {
		k.on = false
		say.Fail("the recording ended early: " + r.RecErr.Error())
	}
}

// renamed tells the user which names the present recording contains. It is called when the screen begins or stops
// hiding names. This is necessary because the recording does not change with the screen.
func (k *recordKey) renamed(say *scene.Message) {
	if k.on {
		say.Say("the recording goes on as it was begun" + cmp.Or(k.with, ", with all names"))
	}
}

// recordingMsg reports that a recording has begun or has ended. If it has begun, bytes is 0.
type recordingMsg struct {
	path  string
	bytes int64
	// lost is the number of samples that are missing from the file because the disk was slow.
	lost uint64
	err  error
}

// press begins a recording, with the data on the screen and everything that follows. If a recording is in progress,
// press ends it.
func (k *recordKey) press(of *store.Store, sc *scene.Scene, say *scene.Message) tea.Cmd {
	if k.busy { // the file of the last press is still being opened or closed: this press waits for it
		k.again = !k.again
		return nil
	}
	if k.on {
		k.on, k.busy = false, true
		say.Say("ending the recording …")
		return func() tea.Msg {
			path, bytes, lost, err := of.StopRecording(nil)
			return recordingMsg{path, max(bytes, 1), lost, err}
		}
	}
	if sc.LastNS == 0 || sc.Source.Done {
		say.Fail("nothing to record: no samples come")
		return nil
	}
	base := filepath.Join(sc.Opt.Folder, snapshot.Stem(sc.Process.Title, sc.Process.PID, sc.Process.WallTime(sc.LastNS)))
	notes := slices.Clone(sc.Notes)
	process, dict, fromNS := sc.Shareable(), of.Dict.View(), sc.LastNS
	k.with = sc.LeftOut()
	k.on, k.busy = true, true
	return func() tea.Msg {
		// If an earlier recording failed, it must be closed first. Its error is ignored here, because the screen has
		// already shown it.
		_, _, _, _ = of.StopRecording(nil)
		r, err := of.Record(base, process, dict, notes, fromNS)
		if err != nil {
			return recordingMsg{err: err}
		}
		return recordingMsg{path: store.Absolute(r.Path)}
	}
}

// done tells the user that a recording has begun or ended, with its path.
func (k *recordKey) done(msg recordingMsg, of *store.Store, sc *scene.Scene, say *scene.Message) tea.Cmd {
	again := k.again
	k.busy, k.again = false, false
	if msg.err != nil {
		k.on = false
		say.Fail("not recorded: " + msg.err.Error())
		return nil
	}
	path := store.Absolute(msg.path)
	var cmd tea.Cmd
	if msg.bytes == 0 {
		say.Say("recording to "+msg.path+k.with+"   W ends it", msg.path)
	} else {
		text := fmt.Sprintf("recorded %s, and the path copied: %s", units.Bytes(msg.bytes), path)
		if msg.lost > 0 {
			text += fmt.Sprintf(" (%s samples are missing: the disk was too slow)", units.Count(int64(msg.lost)))
		}
		say.Say(text, path)
		cmd = copyPath(sc, path)
	}
	if again {
		return tea.Batch(cmd, k.press(of, sc, say))
	}
	return cmd
}
