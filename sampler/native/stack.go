package native

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/ddtop/ddtop/attach"
)

const (
	// stackPiece is how much of a stack is read at once, in bytes. Most stacks reach Ruby's frames within it.
	stackPiece = 4096
	// maxPieces bounds the pieces of one stack: 1 MB. A thread of Ruby's has its VM stack, of 1 MB, between its
	// outermost frames and the others. The VM stack is never read.
	maxPieces = 256
	// maxWords bounds the words of one stack that are read. 1,024 frames with eight saved registers have 8,192.
	maxWords = 1 << 16
)

// errStack means that there is no readable stack where the registers point.
var errStack = errors.New("its memory cannot be read")

// errCopied means that the copy of a stack ends before the word that is needed.
var errCopied = errors.New("its memory was not copied so far")

// errWork means that the tables of a file ask for far more work than a compiler.
var errWork = errors.New("its unwind tables take too long")

// stackMemory is a thread's stack, read in pieces when they are needed.
type stackMemory struct {
	space  *Space
	pieces []stackPart
	words  int // number of words that were read
	// copied is true if pieces have a copy of the stack. The rest cannot be read, because the thread has run on since.
	copied bool
}

type stackPart struct {
	from  uint64
	bytes []byte
}

// word reads a word of the stack, or of the stack that a signal handler was called from.
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
	// A stack is never a file's memory. A read of such memory could wait for a file system that hangs.
	where, ok := s.space.mappingAt(at)
	if !ok || !where.Read || where.IsFile() || len(s.pieces) >= maxPieces || uint64(where.End)-at < 8 {
		return 0, errStack
	}
	b := make([]byte, min(stackPiece, uint64(where.End)-at))
	if s.space.process.Read(attach.Address(at), b) != nil {
		return 0, errStack
	}
	// gcore writes zeros for memory that it cannot read. A return address of zero would end the stack there.
	if len(s.pieces) == 0 && len(bytes.TrimLeft(b, "\x00")) == 0 {
		return 0, errStack
	}
	s.pieces = append(s.pieces, stackPart{at, b})
	return binary.LittleEndian.Uint64(b), nil
}
