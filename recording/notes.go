package recording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxNotes limits how many notes of a recording a Reader keeps. If there are more, it keeps the first ones in the
	// file.
	maxNotes = 10_000
	// maxNoteText limits a note's text, in bytes.
	maxNoteText = 4096
)

// Note writes a note into the recording, as a separate block. It returns errLimit if the text has more than 4096 bytes,
// and ErrSlow if the disk is too slow. If the disk returns an error, a later call returns this error, as Write does.
func (w *Writer) Note(n sampler.Note) error {
	if w.closed {
		return errClosed
	}
	if len(n.Text) > maxNoteText {
		return fmt.Errorf("%w: a note of %d bytes", errLimit, len(n.Text))
	}
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("recording: a note: %w", err)
	}
	j := job{data: data, block: header{kind: kindNote, raw: uint32(len(data)), firstNS: n.AtNS, lastNS: n.AtNS}}
	if !w.live {
		w.jobs <- j
		return w.failed()
	}
	select {
	case w.jobs <- j:
		return w.failed()
	default:
		return fmt.Errorf("%w: a note could not be written", ErrSlow)
	}
}

// Notes lists the notes in the order of their time.
func (r *Reader) Notes() []sampler.Note { return slices.Clone(r.notes) }

func (r *Reader) takeNote(n sampler.Note) {
	if len(r.notes) >= maxNotes || len(n.Text) > maxNoteText {
		return
	}
	i, _ := slices.BinarySearchFunc(r.notes, n.AtNS, func(have sampler.Note, at int64) int {
		if have.AtNS == at {
			return -1 // a new note comes after the notes with the same time
		}
		return cmp.Compare(have.AtNS, at)
	})
	r.notes = slices.Insert(r.notes, i, n)
}
