package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ddtop/ddtop/sampler"
)

// resyncFactor limits the search for whole blocks after damage. It limits how many bytes are checksummed, as a multiple
// of the file's size. Without this limit, a malicious file could make the search take very long, with the beginning of
// a block at every byte.
const resyncFactor = 4

// resyncChunk is the size of the chunks that are searched for a block, in bytes.
const resyncChunk = 1 << 20

// scanner goes through a file's blocks.
type scanner struct {
	r      *Reader
	size   int64
	budget int64
	buf    []byte
	// ctx ends the scan early. progress is called with the number of bytes that were scanned so far.
	ctx      context.Context
	progress func(done, size int64)
}

// at reports the progress of the scan to its caller: all bytes before pos were scanned. It returns an error if ctx has
// ended.
func (s *scanner) at(pos int64) error {
	if s.progress != nil {
		s.progress(pos, s.size)
	}
	return s.ctx.Err()
}

// index reads the header, the process, the end and the notes of a recording. It finds the other blocks, and checks all
// checksums.
func (r *Reader) index(ctx context.Context, size int64, progress func(done, size int64)) error {
	s := &scanner{r: r, size: size, budget: resyncFactor*size + 1<<20, buf: make([]byte, 256<<10), ctx: ctx, progress: progress}
	head, err := s.read(0, fileHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("recording %s: %w", r.path, err)
	}
	if r.version, err = checkFileHeader(head, r.path); err != nil {
		return err
	}
	pos := int64(fileHeader)
	h, whole, err := s.check(pos)
	if err != nil {
		return fmt.Errorf("recording %s: %w", r.path, err)
	}
	if !whole || h.kind != kindProcess {
		return fmt.Errorf("recording %s: %w: the block that describes the process is not whole", r.path, errDamaged)
	}
	if h.stored > maxDescription {
		return fmt.Errorf("recording %s: %w: the block at offset %d: it describes the process in %d bytes, %d are the most",
			r.path, errDamaged, pos, h.stored, maxDescription)
	}
	data, err := s.read(pos+blockHeader, int(h.stored))
	if err == nil {
		r.process, err = decodeJSON[sampler.Process](data)
	}
	if err != nil {
		return fmt.Errorf("recording %s: the process: %w", r.path, err)
	}
	for pos += blockHeader + int64(h.stored); pos < size; {
		if err := s.at(pos); err != nil {
			return fmt.Errorf("recording %s: %w", r.path, err)
		}
		h, whole, err := s.check(pos)
		if err != nil {
			return fmt.Errorf("recording %s: %w", r.path, err)
		}
		if whole {
			if whole, err = s.take(pos, h); err != nil {
				return fmt.Errorf("recording %s: %w", r.path, err)
			}
		}
		next := pos + blockHeader + int64(h.stored)
		if !whole {
			if next, err = s.resync(pos + 1); err != nil {
				return fmt.Errorf("recording %s: %w", r.path, err)
			}
			s.lost(pos, next)
		}
		pos = next
	}
	return nil
}

func (s *scanner) lost(pos, next int64) {
	d := s.r.damage
	if d == nil {
		d = &Damage{Path: s.r.path, Offset: pos}
		s.r.damage = d
	}
	d.Places++
	d.Bytes += next - pos
	d.Truncated = next == s.size
}

// take stores what the Reader needs of a whole block. For samples, this is the place of the block. For an end or a
// note, it is the content. take returns false if the block's content is invalid.
func (s *scanner) take(pos int64, h header) (bool, error) {
	if (h.kind == kindEnd || h.kind == kindNote) && h.stored > maxDescription {
		return false, nil
	}
	switch h.kind {
	case kindSamples:
		if h.flags&^flagCompressed != 0 || h.firstNS > h.lastNS || h.samples > maxSamples {
			return false, nil
		}
		s.r.blocks = append(s.r.blocks, Block{FirstNS: h.firstNS, LastNS: h.lastNS, Samples: int(h.samples), Offset: pos,
			Bytes: blockHeader + int64(h.stored), header: h})
	case kindEnd:
		data, err := s.read(pos+blockHeader, int(h.stored))
		if err != nil {
			return false, err
		}
		end, err := decodeJSON[sampler.End](data)
		if err != nil {
			return false, nil
		}
		s.r.end = &end
	case kindNote:
		data, err := s.read(pos+blockHeader, int(h.stored))
		if err != nil {
			return false, err
		}
		note, err := decodeJSON[sampler.Note](data)
		if err != nil {
			return false, nil
		}
		s.r.takeNote(note)
	}
	return true, nil
}

// read reads n bytes. If the file ends before that, it returns fewer bytes, and io.EOF.
func (s *scanner) read(pos int64, n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := s.r.file.ReadAt(b, pos)
	if got == n {
		err = nil
	}
	return b[:got], err
}

// check reports whether a whole block begins at pos. err is not nil if the file cannot be read.
func (s *scanner) check(pos int64) (h header, whole bool, err error) {
	if pos+blockHeader > s.size {
		return h, false, nil
	}
	b, err := s.read(pos, blockHeader)
	if err != nil {
		return h, false, err
	}
	h, ok := parseHeader(b)
	if !ok || pos+blockHeader+int64(h.stored) > s.size {
		return h, false, nil
	}
	crc := crc32.Checksum(b[:blockHeader-4], castagnoli)
	pos += blockHeader
	for left := int(h.stored); left > 0; {
		n := min(left, len(s.buf))
		if got, err := s.r.file.ReadAt(s.buf[:n], pos); got < n {
			return h, false, err
		}
		crc = crc32.Update(crc, castagnoli, s.buf[:n])
		pos += int64(n)
		left -= n
	}
	return h, crc == h.crc, nil
}

// resync returns the offset of the next complete block at pos or later. If there is none, it returns the end of the
// file.
func (s *scanner) resync(pos int64) (int64, error) {
	chunk := make([]byte, min(resyncChunk, s.size-pos))
	for pos+blockHeader <= s.size && s.budget > 0 {
		if err := s.at(pos); err != nil {
			return 0, err
		}
		n := int(min(int64(len(chunk)), s.size-pos))
		if got, err := s.r.file.ReadAt(chunk[:n], pos); got < n {
			return 0, err
		}
		s.budget -= int64(n)
		at, err := s.wholeIn(chunk[:n], pos)
		if err != nil {
			return 0, err
		}
		if at >= 0 {
			return at, nil
		}
		if pos+int64(n) >= s.size {
			break
		}
		// go back a little, because a header may begin in this chunk and end in the next
		pos += int64(n - blockHeader + 1)
	}
	return s.size, nil
}

// wholeIn returns the offset of the first complete block whose header is in chunk. chunk is at the offset pos in the
// file. It returns -1 if there is no such block.
func (s *scanner) wholeIn(chunk []byte, pos int64) (int64, error) {
	for from := 0; s.budget > 0; {
		i := bytes.Index(chunk[from:], []byte(blockMagic))
		if i < 0 {
			break
		}
		from += i
		if h, ok := parseHeader(chunk[from:]); ok {
			if _, whole, err := s.check(pos + int64(from)); whole || err != nil {
				return pos + int64(from), err
			}
			s.budget -= blockHeader + int64(h.stored)
		}
		from++
	}
	return -1, nil
}
