package program

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/ddtop/ddtop/internal/units"
	"golang.org/x/sys/unix"
)

const (
	// maxOutput limits the size of the file with a started program's output, in bytes. A program can write to its log
	// for days, and the folder for temporary files is often in memory. keptOutput is the size that remains after ddtop
	// has removed the beginning of the file.
	maxOutput  = 64 << 20
	keptOutput = 32 << 20
	// outputEvery is the usual interval between two checks of the file's size. If the program writes fast, the interval
	// is shorter, so that the file grows by at most a fourth of maxOutput between two checks. leastOutputEvery is the
	// shortest interval.
	outputEvery      = 250 * time.Millisecond
	leastOutputEvery = 5 * time.Millisecond
)

// commandOutput is the file to which a started program writes. A pipe would not do: if ddtop ends first, the pipe has
// no reader, and the program's next write would end the program.
type commandOutput struct {
	*os.File
	max, kept int64

	mu sync.Mutex
	// The field cut is the number of bytes that ddtop has removed from the beginning of the file. Some file systems
	// cannot shorten a file at its beginning, but can free the memory of these bytes. The bytes then stay in the file
	// and read as zeros. The field hole is the number of such zeros.
	cut, hole int64
	failed    error // why the file could not be cut; nil if it could
}

func newCommandOutput(f *os.File) (*commandOutput, error) {
	// The program must write in append mode, so that it continues at the new end of the file after ddtop has shortened
	// it.
	if err := setAppend(f); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return &commandOutput{File: f, max: maxOutput, kept: keptOutput}, nil
}

// keepShort shortens the file each time it is too large, until the program has ended.
func (o *commandOutput) keepShort(done <-chan struct{}) {
	var before int64
	at, every := time.Now(), leastOutputEvery
	for {
		o.shorten()
		written, now := o.written(), time.Now()
		// The interval at most doubles from one check to the next. So ddtop notices soon if the program begins to write
		// fast.
		every = min(2*every, nextLook(written-before, now.Sub(at), o.max))
		next := time.NewTimer(every)
		before, at = written, now
		select {
		case <-done:
			next.Stop()
			return
		case <-next.C:
		}
	}
}

// nextLook returns how long to wait until the next check of the file's size. The parameter in is the time since the
// previous check, and grown is how many bytes the file has grown in this time. most is the limit of the file's size, in
// bytes.
func nextLook(grown int64, in time.Duration, most int64) time.Duration {
	if grown <= 0 {
		return outputEvery
	}
	rest := float64(in) * float64(most/4) / float64(grown)
	return time.Duration(min(max(rest, float64(leastOutputEvery)), float64(outputEvery)))
}

// written returns the number of bytes that the program has written so far, including removed ones.
func (o *commandOutput) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	info, err := o.Stat()
	if err != nil {
		return 0
	}
	return o.cut - o.hole + info.Size()
}

// shorten removes the beginning of the file if the file is too large. The program may write at the same time.
func (o *commandOutput) shorten() {
	o.mu.Lock()
	defer o.mu.Unlock()
	info, err := o.Stat()
	if err != nil || info.Size()-o.hole <= o.max {
		return
	}
	const block = 1 << 20 // file systems remove only whole blocks, and 1 MiB is a multiple of every block size
	to := (info.Size() - o.kept) / block * block
	switch err := removeBegin(o.File, o.hole, to); {
	case err == nil:
		o.cut += to - o.hole
		o.hole = 0
	case !errors.Is(err, errors.ErrUnsupported):
		o.failed = err
	case punchHole(o.File, to) == nil:
		o.cut += to - o.hole
		o.hole = to
	default: // the file system can only remove the whole content
		if o.failed = o.Truncate(0); o.failed == nil {
			o.cut, o.hole = o.cut+info.Size()-o.hole, 0
		}
	}
}

// about returns a text about the removed part of the output, or "" if nothing was removed.
func (o *commandOutput) about() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := ""
	if o.cut > 0 {
		text = ", without its first " + units.Bytes(o.cut)
	}
	if o.hole > 0 {
		text += fmt.Sprintf(" (read it with tail -c +%d)", o.hole+1)
	}
	if o.failed != nil {
		text += fmt.Sprintf("; it could not be kept below %s: %v", units.Bytes(o.max), o.failed)
	}
	return text
}

// copyTo writes the output that is left in the file to w. If the beginning of the file was removed, copyTo starts at
// the first whole line.
func (o *commandOutput) copyTo(w io.Writer) error {
	o.mu.Lock()
	cut, hole := o.cut, o.hole
	o.mu.Unlock()
	r := bufio.NewReader(io.NewSectionReader(o.File, hole, math.MaxInt64-hole))
	if cut > 0 {
		if _, err := fmt.Fprintf(w, "ddtop: the first %s are left out\n", units.Bytes(cut)); err != nil {
			return err
		}
		for { // skip the rest of a cut line
			if _, err := r.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
	}
	_, err := io.Copy(w, r)
	return err
}

// setAppend makes all writes to an open file go to its end. This affects every process that shares the open file.
func setAppend(f *os.File) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags|unix.O_APPEND)
	}
	return err
}
