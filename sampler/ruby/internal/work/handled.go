package work

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// maxMessage bounds the length of an exception's message, in bytes.
const maxMessage = 200

// handled is the exception that a thread handles now.
type handled struct {
	id   sampler.TextID
	text string
	// ec and version identify the frames of the last search. version is zero if the frames have neither a rescue nor an
	// ensure. In this case an exception can only be in the execution context. known is true if the search succeeded,
	// even if the thread handles no exception.
	ec      attach.Address
	version uint64
	known   bool
	from    heap.Watch
	// frame is the frame whose variable holds the exception. If the execution context holds it, frame is the innermost
	// frame.
	frame liveFrame
}

func (h *handled) forget() {
	h.id, h.text, h.known = 0, "", false
	h.from.Clear()
}

// lookForException sets s.handled to the exception that the thread handles ($!). After an error, s.handled is empty.
func (f *Finder) lookForException(s *State, fr *Frames) error {
	h := &s.handled
	if fr.Partial || fr.Truncated || fr.count() == 0 {
		h.forget()
		return nil
	}
	version := uint64(0)
	if fr.Handlers > 0 {
		version = fr.Version
	}
	if h.known && h.ec == fr.EC && h.version == version {
		if !s.anew || h.text == "" {
			if f.unchanged(&h.from) {
				if version == 0 {
					h.frame.set(frameOf(fr, fr.inner(0), fr.Raw))
				}
				return nil
			}
		} else {
			// The exception was read earlier than the thread's request or job. The frame that handles the exception may
			// have returned since then, and the exception would belong to the last request. A comparison of memory
			// would not show this, because the memory of a frame that has returned stays the same for a while. So read
			// the exception again.
			h.from.Unplan()
		}
	}
	h.forget()
	return f.onCredit(func() error {
		text, err := f.readException(fr)
		if err != nil {
			return err
		}
		h.frame.set(f.frame)
		if text != "" && !f.paired(s, fr) {
			return errChanged
		}
		h.ec, h.version, h.known = fr.EC, version, true
		h.text, h.id = text, f.dict.InternText(text)
		h.from.Set(f.notes)
		return nil
	})
}

// paired reports whether the thread's request or job (task) is still in progress. If it is, the statement or exception
// that was just read belongs to the task. paired returns true if there is no task.
func (f *reader) paired(s *State, fr *Frames) bool {
	if s.task == nil {
		return true
	}
	if !s.sameFrames(fr) {
		return false
	}
	frame, at := fr.outer(len(s.outer) / fr.Size)
	f.frame = frameOf(fr, at, frame)
	return f.lives(&f.frame, &s.from)
}

// lives reports whether the frame has not returned, and the memory in from, which was read for the frame, is unchanged.
// The memory alone is not enough, because the words of a frame that has returned stay as they were.
func (f *reader) lives(frame *liveFrame, from *heap.Watch) bool {
	same, calls, err := frame.confirm(from, true, f.objects, f.mem)
	f.calls += calls
	return err == nil && same
}

// readException returns the text of the exception that the thread handles (exceptionText). text is empty if the thread
// handles no exception, or if the exception's class has no name. f.notes lists the memory that was read.
func (f *Finder) readException(fr *Frames) (text string, err error) {
	var scopes []code.Scope
	if fr.Handlers > 0 {
		if scopes, err = f.scopesOf(fr.Raw); err != nil {
			return "", err
		}
		n := 0
		for i := range scopes {
			if scopes[i].Handler() {
				n++
			}
		}
		if n != fr.Handlers {
			return "", errChanged // a JIT keeps the frame of the rescue or ensure in another place
		}
	}
	_, err = f.settled(func() bool {
		v, from, err := f.code.Errinfo(scopes, fr.EC)
		at := 0
		if from >= 0 {
			at = scopes[from].Frame
		}
		f.frame = frameOf(fr, fr.inner(at), fr.Raw[at*fr.Size:])
		if text = ""; !f.fails(err) && v != 0 {
			text = f.exceptionText(v)
		}
		return text != ""
	})
	return text, err
}

// exceptionText returns an exception's class. If the user wants to see values, the exception's message follows. This is
// the text with which the exception was made, even if a method of its class changes the message.
func (f *Finder) exceptionText(v uint64) string {
	// Check that v is still an object. A fiber that was abandoned, but not freed yet, can point to an object that the
	// collector has freed.
	if !f.is(v, heap.TypeObject) {
		return ""
	}
	f.word(attach.Address(v) + heap.BasicClass)
	if f.failed != nil {
		return ""
	}
	class := ""
	f.quietly(func() {
		// If the frame has returned, the memory of its variable may be in use for another call. v may then be the
		// receiver of that call. So check that v is an exception.
		if is, err := f.objects.Exception(v); !f.fails(err) && is {
			class = f.classOf(v)
		}
	})
	switch {
	case !constantPath(class):
		return ""
	case !f.values, class == "UncaughtThrowError": // the message of an UncaughtThrowError is a format string
		return class
	}
	message := f.ivar(v, "mesg")
	if !f.is(message, heap.TypeString) {
		return class
	}
	text, more, err := f.objects.Prefix(message, maxMessage+utf8.UTFMax)
	if f.fails(err) || text == "" {
		return class
	}
	return class + ": " + cutMessage(text, more)
}

// cutMessage shortens s, the beginning of a message, to maxMessage bytes. more is true if the message is longer than s.
// If something is missing, the result ends with a mark.
func cutMessage(s string, more bool) string {
	if len(s) > maxMessage {
		n := maxMessage
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s, more = s[:n], true
	}
	if more {
		s += sampler.CutMark
	}
	return s
}

// constantPath reports whether s is a path of constants, such as a named class has. Anonymous classes have other paths,
// which contain addresses or arbitrary text.
func constantPath(s string) bool {
	for name := range strings.SplitSeq(s, "::") {
		for i, c := range name {
			if i == 0 && !unicode.IsUpper(c) && !unicode.IsTitle(c) || c != '_' && !unicode.In(c, unicode.L, unicode.M, unicode.Nd) {
				return false
			}
		}
		if name == "" {
			return false
		}
	}
	return true
}
