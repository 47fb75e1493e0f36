// Package recording stores a stream of Samples in two places: in a file, and in memory. In memory they are the history
// through which the user moves on the screen. File and memory use the same blocks.
//
// # The file
//
// A file begins with a header of 16 bytes: the magic "ddtoprec", the version as a 32-bit number, and 32 reserved bits.
// Blocks follow. A writer only appends blocks. All fixed-size numbers are little endian. A block begins with 48 bytes:
//
//	 0  magic "ddtb".
//	 4  kind: 1 process, 2 samples, 3 end, 4 note; a reader skips others.
//	 5  flags: bit 0: the data is compressed (zstd); bit 1: IDs belong to a Dictionary in memory (never in a file).
//	 6  two reserved bytes, 0.
//	 8  length of the data as stored, 32 bits.
//	12  length of the data uncompressed, 32 bits.
//	16  TimeNS of the first and
//	24  of the last sample, 64 bits each.
//	32  number of samples, 32 bits.
//	36  8 reserved bytes, 0.
//	44  CRC-32C of these 44 bytes and the data as stored.
//
// There are four kinds of blocks:
//
// - The process block has sampler.Process as JSON. It is the first block, and there is one in each file.
// - The end block has sampler.End. It is the last block, and exists only if the writer saw the end of the target.
// - A note block has sampler.Note. It can be anywhere between the other blocks.
// - A samples block covers about two seconds and can be decoded without any other block.
//
// Later versions may add fields to the first three kinds.
//
// A samples block begins with tables of the strings, frames, stacks, peers, threads, requests and texts to which its
// samples refer. Then come the samples, in variable-length numbers. Each sample is written as the difference to the
// sample before it, and the first one as the difference to an empty sample. See tables.go, streams.go, state.go and
// fields.go.
//
// After a crash or on a full disk, a file ends in the middle of a block. Every whole block before this one is readable.
// A Reader skips a damaged block and continues at the next whole one. Reader.Damage reports what is missing.
package recording

import (
	"errors"
	"fmt"
)

// Version is the version of the file format. A change that older readers could not read needs a new number. New readers
// must still read all older versions. These are the additions of each version:
//
// - 2: how often threads got a CPU, and whether they listen at a connection
// - 3: the requests and jobs of threads, with tables
// - 4: the fibers that wait
// - 5: the IDs of traces
// - 6: the changes of the GVL
// - 7: what threads do between these changes
// - 8: the queues before the process
// - 9: the locks of C code
// - 10: the patterns of requests' paths
// - 11: the C functions in which threads stay
// - 12: which processes used the CPUs, the program's Queues, and stacks of threads that ran, with their C functions
// - 13: the requests that threads begin between samples
// - 14: the exceptions that ended threads, and the threads that use a Queue
const Version = 14

// unit is the unit, in ns, of most times in a file: times of kernel reads, CPU times and ReadNS.
const unit = 1000

const (
	// blockNS is the time that a block covers, in ns. A crash loses at most the recording of this time. Each block has
	// its own tables.
	blockNS = 2e9
	// maxRawBlock limits the size of a block's samples before compression, in bytes. A block that reaches this size is
	// closed before it covers blockNS.
	maxRawBlock = 4 << 20
	// maxBlockData limits the data of a block that a reader accepts, compressed and uncompressed, in bytes.
	maxBlockData = 64 << 20
	// maxThreads and maxRactors limit the lists in one sample. maxResumers limits the list of resuming fibers of one
	// thread.
	maxThreads  = 1 << 17
	maxRactors  = 1 << 14
	maxResumers = 1 << 14
	// maxAllResumers limits the resuming fibers of all threads together. maxQueued limits the entries in all ractors'
	// queues together.
	maxAllResumers = 1 << 21
	maxQueued      = 2 * maxThreads
	// maxSamples limits the samples of a block. ddtop takes at most 20,000 samples in the two seconds of a block.
	maxSamples = 1 << 17
	// maxListed limits how many threads all samples of a block list together. A sample with many threads can be only a
	// few bytes long, but each of its threads costs CPU time. To read a block at this limit takes seconds of CPU time.
	maxListed = 1 << 27
	// The constants from maxStrings to maxBlockThreads limit the elements of a block's tables. maxTexts limits the
	// strings that samples contain themselves, outside the tables.
	maxStrings      = 1 << 20
	maxFrames       = 1 << 18
	maxNodes        = 1 << 22
	maxStacks       = 1 << 20
	maxPeers        = 1 << 17
	maxWorks        = 1 << 18
	maxTold         = 1 << 18 // limits the statements, and also the exceptions
	maxBlockThreads = 1 << 18
	maxTexts        = 1 << 16
	// maxListedFibers limits the fibers that all samples of a block list together.
	maxListedFibers = 1 << 23
	// maxListedChanges limits the changes of the GVL in all samples of a block. To read a block at this limit takes a
	// second of CPU time.
	maxListedChanges = 1 << 21
	// The writer closes a block early if one of its tables has reached 1/enough of its limit. So a table stays far
	// below the limit up to which a reader accepts it.
	enough = 4
	// maxDescription limits the data of a block with the process, a note or the end, in bytes.
	maxDescription = 4 << 20
)

var (
	// errNotRecording means that the file does not begin with a recording's header.
	errNotRecording = errors.New("not a ddtop recording")
	// ErrSlow means that the disk was too slow: the writer gave up before the disk had accepted all of the recording.
	ErrSlow = errors.New("the disk was too slow")
	// errVersion means that the file was written by a ddtop with another format.
	errVersion = errors.New("written by another version of ddtop")
	// errDamaged means that a part of the file cannot be read. If the other parts can be read, errors.As finds a
	// *Damage.
	errDamaged = errors.New("damaged recording")
	// errChanges means that the changes of the GVL in a sample are not sorted by time, or lie outside the sample's
	// time.
	errChanges = errors.New("changes of the GVL that do not fit")
	// errClosed means that the Writer was closed before.
	errClosed = errors.New("the recording is closed")
	// errLimit means that a sample or a block has more threads, ractors, resuming fibers, stacks or strings than the
	// format allows.
	errLimit = errors.New("too much for a recording")
)

// Damage is an error that describes which part of a recording cannot be read. All other blocks are still usable.
type Damage struct {
	Path string
	// Offset is where the first damage begins. Bytes is the total number of lost bytes.
	Offset, Bytes int64
	// Places is the number of damaged places.
	Places int
	// Truncated is true if the file ends within a block, because its writer was killed.
	Truncated bool
}

// Error describes how much is lost.
func (d *Damage) Error() string {
	what := fmt.Sprintf("%d bytes in %d places, the first at offset %d, can't be read", d.Bytes, d.Places, d.Offset)
	switch {
	case d.Places != 1:
	case !d.Truncated:
		what = fmt.Sprintf("%d bytes at offset %d can't be read", d.Bytes, d.Offset)
	default:
		what = fmt.Sprintf("it ends within a block, as if its writer had been killed: the last %d bytes are lost", d.Bytes)
	}
	return fmt.Sprintf("recording %s: %s; all else is whole", d.Path, what)
}

// Is makes errors.Is(err, errDamaged) true.
func (d *Damage) Is(target error) bool { return target == errDamaged }
