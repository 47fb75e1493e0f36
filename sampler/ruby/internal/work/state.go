package work

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// Frames are the control frames of a thread's stack. They come from copies of the stack that were found to agree.
type Frames struct {
	// EC is the execution context. CFP is the address of the innermost frame. InnermostAt is the address of the word
	// in the execution context that holds CFP. End is the end of the VM stack.
	EC, InnermostAt, CFP, End attach.Address
	// Leads are the words that prove that the stack is the thread's: the thread runs the stack's fiber, or runs a
	// fiber that this fiber has resumed.
	Leads []Lead
	// Raw are the frames, innermost first. The last one is Ruby's dummy frame. Size is one frame's size in bytes.
	Raw  []byte
	Size int
	// Stack is the decoded stack. Thread is the thread that has it, or zero for a suspended fiber.
	Stack  sampler.StackID
	Thread sampler.ThreadID
	// Partial is true if inner frames were left out, so that the first frame in Raw is not the innermost. Truncated is
	// true if frames in the middle were left out.
	Partial, Truncated bool
	// Handlers is the number of frames of a rescue or an ensure. Version is above 0, and changes when the thread's
	// stack changes.
	Handlers int
	Version  uint64
	// NowNS is the time of the sample of these frames. SinceNS is a time before they were read. Both are
	// CLOCK_MONOTONIC in ns.
	NowNS, SinceNS int64
	// BornNS and ByNS are times before and after the begin of new work that a search finds, CLOCK_MONOTONIC in ns. At
	// BornNS the execution context was read or did not exist yet. It is zero if not known. If ByNS is zero, NowNS
	// counts instead.
	BornNS, ByNS int64
}

// Lead is the address of a word of the target that leads to a stack, and the value of the word. If the value changes,
// the word leads elsewhere: the memory of a fiber that has ended is reused, also by fibers of other threads.
type Lead struct{ At, Says attach.Address }

// outer returns the j-th frame from the outside, and its address. The frame 0 is the dummy frame.
func (f *Frames) outer(j int) (frame []byte, at attach.Address) {
	i := len(f.Raw) - (j+1)*f.Size
	return f.Raw[i : i+f.Size], f.End - attach.Address((j+1)*f.Size)
}

// inner returns the address of the i-th frame from the innermost.
func (f *Frames) inner(i int) attach.Address { return f.CFP + attach.Address(i*f.Size) }

func selfOf(frame []byte) uint64 { return view.U64(frame[code.FrameSelf:]) }

func (f *Frames) count() int { return len(f.Raw) / f.Size }

// State keeps the results of searches for a thread's work from tick to tick. The zero value has none.
type State struct {
	// ec is the execution context of the last search, which was not before lookedNS. It is zero if there was none.
	ec       attach.Address
	lookedNS int64
	// listedNS is when the frames were last searched for Queues. It is zero if never.
	listedNS int64

	// task is the thread's request or job. It is nil if it is not known. outer are the frames outward of the task's
	// frame. words are the words of the task's frame that stay the same while it runs.
	task  *task
	outer []byte
	words [frameWords]byte
	// anew is true if the last search read the task again instead of only confirming it.
	anew bool
	// from is the memory that task was read from.
	from heap.Watch
	// bare are the outermost frames of the context bareEC if none of their variables can name work.
	bare   []byte
	bareEC attach.Address

	traced traced

	// asked is the thread's statement, read from the local variable at askedAt.
	asked     sampler.TextID
	askedText string
	askedAt   attach.Address
	askedFrom heap.Watch
	// askedFrame is the frame that has the variable.
	askedFrame liveFrame

	handled handled

	// generation is the Dictionary's generation in which the IDs are valid.
	generation sampler.Generation
	serving    sampler.Serving
	// idle is true if no frame named work in the last search. unread is true if the search could not read the frames.
	idle, unread bool
}

// Of reports whether the last search was for the execution context ec.
func (s *State) Of(ec attach.Address) bool { return s.ec == ec }

// Serving is the result of the last search.
func (s *State) Serving() sampler.Serving { return s.serving }

// Plan adds to ranges the memory from which the last result was read. The caller then reads it again.
func (s *State) Plan(ranges []attach.Range) []attach.Range {
	return s.handled.from.Plan(s.askedFrom.Plan(s.from.Plan(ranges)))
}

// Unplan notes that this tick has not read the ranges of Plan, because the call failed or another call was made.
func (s *State) Unplan() {
	s.from.Unplan()
	s.askedFrom.Unplan()
	s.handled.from.Unplan()
}

// Lost clears the work, because the thread's stack is not known. The request may continue.
func (s *State) Lost() { s.serving, s.idle, s.unread = sampler.Serving{}, false, true }

// Unread reports whether the last search could not find out what the thread works for.
func (s *State) Unread() bool { return s.unread && s.serving.Work == 0 }

// Task returns the request or job that the last search found. ok is false if it found none.
func (s *State) Task() (t TaskID, ok bool) {
	if s.task == nil || s.serving.Work == 0 {
		return TaskID{}, false
	}
	return TaskID{s.task.key.hash, s.task.identity}, true
}

// LookedNS returns a time not later than the last successful search for the work of the context ec, CLOCK_MONOTONIC in
// ns. It is zero if the last search was for another context, or if no search succeeded.
func (s *State) LookedNS(ec attach.Address) int64 {
	if s.ec != ec {
		return 0
	}
	return s.lookedNS
}

// StandsStill records that a thread has not moved between fromNS and toNS. If its context ec was searched at fromNS or
// later, the result is still valid at toNS.
func (s *State) StandsStill(ec attach.Address, fromNS, toNS int64) {
	if s.ec == ec && s.lookedNS >= fromNS {
		s.lookedNS = toNS
	}
}

// TaskID identifies the Hash of a request or a job.
type TaskID struct {
	hash     uint64
	identity [identityWords]uint64
}

// Hash returns the address of the Ruby Hash of a request or job, such as the Rack environment.
func (t *TaskID) Hash() uint64 { return t.hash }

// Alike reports whether two results are of the same request or job. They may come from variables of different fibers.
func (t *TaskID) Alike(o *TaskID) bool { return t.hash == o.hash && alike(&t.identity, &o.identity) }

// Idle reports whether the last search found no work, neither in the running fiber nor in a trace. Then a fiber that
// has resumed the running fiber may have work (LookOutward).
func (s *State) Idle() bool { return s.idle && s.serving.Work == 0 }

// frameWords is the number of bytes of a control frame that stay the same while it runs: its code, its receiver and
// its environment, from FrameISeq on. (The environment moves to the heap when a block keeps it. Then the frame is
// searched again.)
const frameWords = code.FrameEP + 8 - code.FrameISeq

func wordsOf(frame []byte) (w [frameWords]byte) {
	copy(w[:], frame[code.FrameISeq:])
	return w
}

// sameFrames reports whether the task's frame and the frames outward of it are unchanged.
func (s *State) sameFrames(f *Frames) bool {
	n := len(s.outer)
	if s.task == nil || s.ec != f.EC || n+f.Size > len(f.Raw) || !bytes.Equal(f.Raw[len(f.Raw)-n:], s.outer) {
		return false
	}
	at := len(f.Raw) - n - f.Size
	return wordsOf(f.Raw[at:at+f.Size]) == s.words
}

// keepFrames remembers the j-th frame from the outside, and the frames outward of it.
func (s *State) keepFrames(f *Frames, j int) {
	frame, _ := f.outer(j)
	s.outer = append(s.outer[:0], f.Raw[len(f.Raw)-j*f.Size:]...)
	s.words = wordsOf(frame)
}
