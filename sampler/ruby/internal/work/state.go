package work

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// Frames are the control frames of a thread's stack. They are reliable: ddtop has read the stack several times, and the
// frames were the same each time.
type Frames struct {
	// EC is the execution context. CFP is the address of the innermost frame. InnermostAt is the address of the word
	// in the execution context that holds CFP. End is the end of the VM stack.
	EC, InnermostAt, CFP, End attach.Address
	// Leads are the words in memory that prove that the stack belongs to the thread. There are two cases: the thread
	// runs the stack's fiber, or it runs a fiber that the stack's fiber has resumed.
	Leads []Lead
	// Raw are the frames, innermost first. The last one is Ruby's dummy frame. Size is one frame's size in bytes.
	Raw  []byte
	Size int
	// Stack is the ID of the decoded stack. Thread is the thread that runs it, or zero for a suspended fiber.
	Stack  sampler.StackID
	Thread sampler.ThreadID
	// Partial is true if inner frames were left out, so that the first frame in Raw is not the innermost. Truncated is
	// true if frames in the middle were left out.
	Partial, Truncated bool
	// Handlers is the number of frames of a rescue or an ensure. Version is above 0, and changes when the thread's
	// stack changes.
	Handlers int
	Version  uint64
	// NowNS is the time of the sample with these frames. SinceNS is a time before the frames were read. Both are
	// CLOCK_MONOTONIC in ns.
	NowNS, SinceNS int64
	// A search can find work in these frames that began after the last search. BornNS and ByNS limit the time at which
	// it began, CLOCK_MONOTONIC in ns. At BornNS, the execution context had no such work yet, or did not exist. BornNS
	// is zero if no such time is known. If ByNS is zero, NowNS is used instead.
	BornNS, ByNS int64
}

// Lead is a word of the target through which ddtop has found a stack, such as a pointer. At is its address, and Says is
// the value that it must have. Another value means that the word now leads to something else. Ruby can cause this by
// reusing the memory of ended fibers, also for fibers of other threads.
type Lead struct{ At, Says attach.Address }

// outer returns the j-th frame and its address, counted from the outermost. Frame 0 is the dummy frame.
func (f *Frames) outer(j int) (frame []byte, at attach.Address) {
	i := len(f.Raw) - (j+1)*f.Size
	return f.Raw[i : i+f.Size], f.End - attach.Address((j+1)*f.Size)
}

// inner returns the address of the i-th frame, counted from the innermost, which is frame 0.
func (f *Frames) inner(i int) attach.Address { return f.CFP + attach.Address(i*f.Size) }

func selfOf(frame []byte) uint64 { return view.U64(frame[code.FrameSelf:]) }

func (f *Frames) count() int { return len(f.Raw) / f.Size }

// State keeps the results of searches for a thread's work from tick to tick. The zero value has no results.
type State struct {
	// ec is the execution context of the last search. It is zero if there was no search. lookedNS is a time at which
	// the result of the search was still valid. Usually it is a time just before the search. It is later if the thread
	// has not run since the search.
	ec       attach.Address
	lookedNS int64
	// listedNS is when the frames were last searched for Queues. It is zero if they were never searched.
	listedNS int64

	// task is the thread's request or job. It is nil if it is not known. outer are the frames outward of the task's
	// frame. words are those words of the task's frame that do not change while it runs.
	task  *task
	outer []byte
	words [frameWords]byte
	// anew is true if the last search read the task again instead of only confirming it.
	anew bool
	// from is the memory that task was read from.
	from heap.Watch
	// bare are the outermost frames that were already searched and whose variables cannot hold work. ddtop does not
	// search them again. bareEC is their execution context.
	bare   []byte
	bareEC attach.Address

	traced traced

	// asked is the thread's statement, read from the local variable at askedAt.
	asked     sampler.TextID
	askedText string
	askedAt   attach.Address
	askedFrom heap.Watch
	// askedFrame is the frame to which the variable at askedAt belongs.
	askedFrame liveFrame

	handled handled

	// generation is the generation of the Dictionary in which the IDs asked and handled.id are valid. In a later
	// generation, the Dictionary may have evicted them.
	generation sampler.Generation
	serving    sampler.Serving
	// idle is true if the last search succeeded but found no work. unread is true if the search failed.
	idle, unread bool
}

// Of reports whether the last search was for the execution context ec.
func (s *State) Of(ec attach.Address) bool { return s.ec == ec }

// Serving returns what the last search found.
func (s *State) Serving() sampler.Serving { return s.serving }

// Plan adds to ranges the memory from which the last results were read. The caller then reads this memory again,
// together with its own ranges.
func (s *State) Plan(ranges []attach.Range) []attach.Range {
	return s.handled.from.Plan(s.askedFrom.Plan(s.from.Plan(ranges)))
}

// Unplan notes that this tick has not read the memory that Plan added. Either the call failed, or the tick made another
// call instead.
func (s *State) Unplan() {
	s.from.Unplan()
	s.askedFrom.Unplan()
	s.handled.from.Unplan()
}

// Lost clears the work that State reports. It is called if ddtop could not read the thread's stack. State keeps the
// task itself, because the request or job may still run.
func (s *State) Lost() { s.serving, s.idle, s.unread = sampler.Serving{}, false, true }

// Unread reports whether the thread's work is unknown because the last search failed.
func (s *State) Unread() bool { return s.unread && s.serving.Work == 0 }

// Task returns the request or job that the last search found. ok is false if it found none.
func (s *State) Task() (t TaskID, ok bool) {
	if s.task == nil || s.serving.Work == 0 {
		return TaskID{}, false
	}
	return TaskID{s.task.key.hash, s.task.identity}, true
}

// LookedNS returns a time at which the result of the last successful search for work was valid, CLOCK_MONOTONIC in ns.
// It is not later than the search, unless the thread has not run since (StandsStill). It is zero if the last search was
// not in the context ec, or if no search has succeeded.
func (s *State) LookedNS(ec attach.Address) int64 {
	if s.ec != ec {
		return 0
	}
	return s.lookedNS
}

// StandsStill notes that a thread did not run between fromNS and toNS. If its context ec was searched at fromNS or
// later, the result of the search is still valid at toNS.
func (s *State) StandsStill(ec attach.Address, fromNS, toNS int64) {
	if s.ec == ec && s.lookedNS >= fromNS {
		s.lookedNS = toNS
	}
}

// TaskID identifies a request or a job by its Hash.
type TaskID struct {
	hash     uint64
	identity [identityWords]uint64
}

// Hash returns the address of the Ruby Hash of a request or job, such as the Rack environment.
func (t *TaskID) Hash() uint64 { return t.hash }

// Alike reports whether two TaskIDs are of the same request or job. This occurs if two fibers each have the request or
// job in a variable.
func (t *TaskID) Alike(o *TaskID) bool { return t.hash == o.hash && alike(&t.identity, &o.identity) }

// Idle reports whether the last search found no work, neither in the running fiber's frames nor in a trace. The caller
// then searches the fiber that has resumed the running fiber (LookOutward).
func (s *State) Idle() bool { return s.idle && s.serving.Work == 0 }

// frameWords is the number of bytes of a control frame that stay the same while the frame runs. They begin at FrameISeq
// and contain the frame's code, receiver and environment. (There is one exception: if a block keeps the environment,
// Ruby moves it to the heap. ddtop then searches the frame again.)
const frameWords = code.FrameEP + 8 - code.FrameISeq

func wordsOf(frame []byte) (w [frameWords]byte) {
	copy(w[:], frame[code.FrameISeq:])
	return w
}

// sameFrames reports whether the frame that holds the request or job (task), and the frames outward of it, are
// unchanged.
func (s *State) sameFrames(f *Frames) bool {
	n := len(s.outer)
	if s.task == nil || s.ec != f.EC || n+f.Size > len(f.Raw) || !bytes.Equal(f.Raw[len(f.Raw)-n:], s.outer) {
		return false
	}
	at := len(f.Raw) - n - f.Size
	return wordsOf(f.Raw[at:at+f.Size]) == s.words
}

// keepFrames stores in s the j-th frame, counted from the outermost, and the frames outward of it.
func (s *State) keepFrames(f *Frames, j int) {
	frame, _ := f.outer(j)
	s.outer = append(s.outer[:0], f.Raw[len(f.Raw)-j*f.Size:]...)
	s.words = wordsOf(frame)
}
