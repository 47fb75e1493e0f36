package work

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// Frames are the control frames of a thread's stack as they were read and believed.
type Frames struct {
	// EC is the execution context, which has the address of the innermost frame at InnermostAt; CFP was that address.
	// End is the end of the VM stack.
	EC, InnermostAt, CFP, End attach.Address
	// Leads are what says that the stack is the thread's: that it runs this fiber, or that this one has resumed that
	// which it runs.
	Leads []Lead
	// Raw are the frames, innermost first, with the dummy at the bottom. Size is the size of one, in bytes.
	Raw  []byte
	Size int
	// Stack is what they were decoded to.
	Stack sampler.StackID
	// Partial: inner frames were left out, so the first one is not the innermost. Truncated: the middle was.
	Partial, Truncated bool
	// Handlers is the number of frames of a rescue or an ensure. Version tells the thread's stacks apart. It is above
	// 0.
	Handlers int
	Version  uint64
	// NowNS is the time of the sample that they are of, and SinceNS, no later, one at which they were not read yet:
	// CLOCK_MONOTONIC in ns.
	NowNS, SinceNS int64
	// BornNS is a time at which the execution context served none of what is new to the State, because it was read then
	// or was not there yet. It is zero if not known. ByNS is a time by which what is new has begun. It is NowNS if it
	// is zero. Both are CLOCK_MONOTONIC in ns.
	BornNS, ByNS int64
}

// Lead is a word of the target with what it says while it leads to a stack: a fiber that has ended leaves its memory to
// others, of other threads too.
type Lead struct{ At, Says attach.Address }

// outer returns the j-th frame from the outside and its address; the 0th is the dummy.
func (f *Frames) outer(j int) (frame []byte, at attach.Address) {
	i := len(f.Raw) - (j+1)*f.Size
	return f.Raw[i : i+f.Size], f.End - attach.Address((j+1)*f.Size)
}

// inner returns the address of the i-th frame from the innermost.
func (f *Frames) inner(i int) attach.Address { return f.CFP + attach.Address(i*f.Size) }

func selfOf(frame []byte) uint64 { return view.U64(frame[code.FrameSelf:]) }

func (f *Frames) count() int { return len(f.Raw) / f.Size }

// State is what is known of a thread from tick to tick. The zero value knows nothing.
type State struct {
	// ec is the execution context of the last search, which was no earlier than lookedNS. It is zero if there was none.
	ec       attach.Address
	lookedNS int64

	// task is what the thread works on. It is nil if that could not be told. outer are the frames outward of the one
	// that tells it. words are the words of that one that stay while it runs.
	task  *task
	outer []byte
	words [frameWords]byte
	// anew: the last search has read it anew.
	anew bool
	// from is what task was read from.
	from heap.Watch
	// bare are outer frames, of the context bareEC, that have no variable of interest.
	bare   []byte
	bareEC attach.Address

	traced traced

	// asked is what the thread asks, read from the local variable at askedAt.
	asked     sampler.TextID
	askedText string
	askedAt   attach.Address
	askedFrom heap.Watch
	// askedFrame is the frame that has the variable.
	askedFrame liveFrame

	handled handled

	// generation is the Dictionary's that the IDs are of.
	generation sampler.Generation
	serving    sampler.Serving
	// idle: the last search could tell that the frames say nothing of what the thread works on.
	idle bool
}

// Of reports whether the last search was for an execution context.
func (s *State) Of(ec attach.Address) bool { return s.ec == ec }

// Serving is the result of the last search.
func (s *State) Serving() sampler.Serving { return s.serving }

// Plan adds the memory that the last result was read from to the ranges of a call.
func (s *State) Plan(ranges []attach.Range) []attach.Range {
	return s.handled.from.Plan(s.askedFrom.Plan(s.from.Plan(ranges)))
}

// Unplan says that what Plan has added is not what this tick reads: the call failed, or a part of it, or it was another
// one.
func (s *State) Unplan() {
	s.from.Unplan()
	s.askedFrom.Unplan()
	s.handled.from.Unplan()
}

// Lost says that the thread's stack is not known, and so what it works for. The request may go on.
func (s *State) Lost() { s.serving, s.idle = sampler.Serving{}, false }

// Task returns the request or job that the last search found. ok is false if it found none.
func (s *State) Task() (t TaskID, ok bool) {
	if s.task == nil || s.serving.Work == 0 {
		return TaskID{}, false
	}
	return TaskID{s.task.key.hash, s.task.identity}, true
}

// LookedNS is a time no later than the last search that could tell what the context ec serves, CLOCK_MONOTONIC in
// ns. It is zero if there was none.
func (s *State) LookedNS(ec attach.Address) int64 {
	if s.ec != ec {
		return 0
	}
	return s.lookedNS
}

// StandsStill says that a thread has not moved between fromNS, when its context ec was looked at, and toNS: what that
// look could tell holds.
func (s *State) StandsStill(ec attach.Address, fromNS, toNS int64) {
	if s.ec == ec && s.lookedNS >= fromNS {
		s.lookedNS = toNS
	}
}

// TaskID tells the Hash of a request or a job from others.
type TaskID struct {
	hash     uint64
	identity [identityWords]uint64
}

// Hash is where it is.
func (t *TaskID) Hash() uint64 { return t.hash }

// Alike reports whether two are of one request or job, in whichever fibers' variables they were found.
func (t *TaskID) Alike(o *TaskID) bool { return t.hash == o.hash && alike(&t.identity, &o.identity) }

// Idle reports whether the last search found that neither the running fiber nor a trace says what the thread
// works on. Then a fiber that has resumed it may (LookOutward).
func (s *State) Idle() bool { return s.idle && s.serving.Work == 0 }

// frameWords is how many bytes of a control frame stay while it runs: its code, its receiver and its environment, from
// FrameISeq on. (The environment moves when a block keeps it; then the frame is looked at anew.)
const frameWords = code.FrameEP + 8 - code.FrameISeq

func wordsOf(frame []byte) (w [frameWords]byte) {
	copy(w[:], frame[code.FrameISeq:])
	return w
}

// sameFrames reports whether the frame that told the task and the frames outward of it are the same as then.
func (s *State) sameFrames(f *Frames) bool {
	n := len(s.outer)
	if s.task == nil || s.ec != f.EC || n+f.Size > len(f.Raw) || !bytes.Equal(f.Raw[len(f.Raw)-n:], s.outer) {
		return false
	}
	at := len(f.Raw) - n - f.Size
	return wordsOf(f.Raw[at:at+f.Size]) == s.words
}

// keepFrames remembers the j-th frame from the outside, and those outward of it.
func (s *State) keepFrames(f *Frames, j int) {
	frame, _ := f.outer(j)
	s.outer = append(s.outer[:0], f.Raw[len(f.Raw)-j*f.Size:]...)
	s.words = wordsOf(frame)
}
