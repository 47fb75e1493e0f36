package native

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/ddtop/ddtop/attach"
)

const (
	// stackPiece is how many bytes of a stack are read at once. For most stacks one piece reaches Ruby's frames.
	stackPiece = 4096
	// maxPieces limits how many pieces of one stack are read. 256 pieces have 1 MB. A thread's stack can be longer, but
	// 1 MB is enough. The VM stack of a Ruby thread, which takes 1 MB, can lie between the outermost frames and the
	// others. ddtop does not read the VM stack here.
	maxPieces = 256
	// maxWords limits how many words of one stack are read. 1,024 frames with eight saved registers each need 8,192.
	maxWords = 1 << 16
)

// errStack means that there is no readable stack at the address in the stack pointer.
var errStack = errors.New("its memory cannot be read")

// errCopied means that unwinding needs a word of the stack that the copy does not contain.
var errCopied = errors.New("its memory was not copied so far")

// errWork means that unwinding with a file's tables needs much more work than with tables that a compiler writes. The
// tables may be malicious.
var errWork = errors.New("its unwind tables take too long")

// stackMemory is a thread's stack, read in pieces when they are needed.
type stackMemory struct {
	space  *Space
	pieces []stackPart
	words  int // number of words that were read
	// copied is true if the field pieces has a copy of the stack. In this case ddtop does not read the thread's memory,
	// because the thread has run since the copy.
	copied bool
}

type stackPart struct {
	from  uint64
	bytes []byte
}

// word reads the word of the stack at the address at. The address can also be on another stack, which the thread used
// before a signal handler was called.
func (s *stackMemory) word(at uint64) (uint64, error) {
	if s.words++; s.words > maxWords {
		return 0, errWork
	}
	for i := len(s.pieces) - 1; i >= 0; i-- {
		p := &s.pieces[i]
		if n := uint64(len(p.bytes)); at >= p.from && at-p.from < n && n-(at-p.from) >= 8 {
			return binary.LittleEndian.Uint64(p.bytes[at-p.from:]), nil
		}
	}
	if s.copied {
		return 0, errCopied
	}
	// Memory of a mapped file is not read. It is not a stack, and reading it could wait for a file system that hangs.
	where, ok := s.space.mappingAt(at)
	if !ok || !where.Read || where.IsFile() || len(s.pieces) >= maxPieces || uint64(where.End)-at < 8 {
		return 0, errStack
	}
	b := make([]byte, min(stackPiece, uint64(where.End)-at))
	if s.space.process.Read(attach.Address(at), b) != nil {
		return 0, errStack
	}
	// gcore writes zeros for memory that it cannot read. A zero here would look like the end of the stack, so return
	// an error.
	if len(s.pieces) == 0 && len(bytes.TrimLeft(b, "\x00")) == 0 {
		return 0, errStack
	}
	s.pieces = append(s.pieces, stackPart{at, b})
	return binary.LittleEndian.Uint64(b), nil
}
