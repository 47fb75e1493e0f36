package recording

import "github.com/ddtop/ddtop/sampler"

// decoder reads the samples of one block. The block may be damaged or malicious, so everything in it is checked.
type decoder struct {
	wire
	// threads are the threads in the block's table.
	threads []sampler.ThreadInfo
	// left is the number of samples that the block may still hold.
	left uint32
}

func newDecoder() *decoder { return &decoder{wire: wire{state: newState(), reading: true}} }

// peekTime returns the TimeNS of the sample that the decoder's method next will read. ok is false at the end of the
// block.
func (d *decoder) peekTime() (ns int64, ok bool) {
	if !d.c.more() {
		return 0, false
	}
	flags, ahead := d.c, d.times
	ns = d.sample.TimeNS + ahead.int()*timeScale(flags.uint())
	return ns, flags.err == nil && ahead.err == nil
}

// skipTo reads samples up to the last one with a time of at most t. ok is false if there is no such sample.
func (d *decoder) skipTo(t int64) (ok bool) {
	for {
		ns, more := d.peekTime()
		if !more || ns > t || !d.next() {
			return ok && d.err() == nil
		}
		ok = true
	}
}

// inRange passes to fn the samples with times in [t0, t1). It stops before the first sample at or after t1. j says up
// to which time the receiver knows the changes of the GVL. inRange updates j.
func (d *decoder) inRange(t0, t1 int64, j *joint, fn func(*sampler.Sample)) error {
	for first := true; ; {
		if ns, ok := d.peekTime(); ok && ns >= t1 || !d.next() {
			return d.err()
		}
		if d.sample.TimeNS < t0 {
			continue
		}
		if first {
			d.join(*j)
		}
		first, j.toNS, j.begun = false, d.changed.toNS, true
		fn(&d.sample)
	}
}

// next reads one sample into d.sample. ok is false at the end of the block, and after an error. d.err returns the
// error.
func (d *decoder) next() (ok bool) {
	if !d.c.more() {
		return false
	}
	if d.left == 0 {
		d.c.fail("more samples than the block's header says")
		return false
	}
	d.left--
	d.fields(&d.sample, 0)
	return d.err() == nil
}
