package code

import (
	"bytes"
	"fmt"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxLoadPath limits how many entries of $LOAD_PATH are read: a large program has about 500.
	maxLoadPath = 1 << 13
	// loadPathEvery is the interval between two readings of $LOAD_PATH, in ns.
	loadPathEvery = 1_000_000_000
)

// loadPathVersion changes whenever the entries of $LOAD_PATH change. Code that was decoded before may then have another
// origin (program, gem or standard library).
type loadPathVersion uint64

// loadPathState is what is known of the target's $LOAD_PATH.
type loadPathState struct {
	read    bool // ddtop has tried to read $LOAD_PATH at least once
	checked int64
	version loadPathVersion
	// entries are the words in the Array $LOAD_PATH when it was last read. They are the addresses of its Strings.
	entries []byte
	origins origins
}

// refreshLoadPath reads $LOAD_PATH if loadPathEvery has passed. If $LOAD_PATH cannot be read, the last known entries
// stay in use. If it was never read, ddtop guesses origins from the usual layout of folders.
func (d *validator) refreshLoadPath(nowNS int64) {
	s := &d.loadPath
	if s.read && nowNS-s.checked < loadPathEvery && nowNS >= s.checked {
		return
	}
	s.read, s.checked = true, nowNS
	var words []byte
	var list []string
	d.view.Reset()
	err := d.view.Settle(func() (err error) {
		words, list, err = d.readLoadPath()
		return err
	})
	d.view.Reset()
	if err != nil || words == nil {
		return
	}
	s.entries = words
	s.version++
	s.origins = newOrigins(list, fmt.Sprintf("%d.%d.", d.target.Release.Major, d.target.Release.Minor))
	d.frameCache.Clear()
	clear(d.frameIDs)
}

// readLoadPath reads the entries of $LOAD_PATH. words is nil if they have not changed. If an entry is not a String,
// list has "" for it. Its path is then the result of its method to_path, which ddtop cannot call.
func (d *validator) readLoadPath() (words []byte, list []string, err error) {
	v, err := d.loadPathValue()
	if err != nil {
		return nil, nil, err
	}
	at, n, err := d.Objects.Array(v)
	if err != nil {
		return nil, nil, err
	}
	if n > maxLoadPath {
		n = maxLoadPath
	}
	b, err := d.view.Bytes(at, int(n)*8)
	if err != nil {
		return nil, nil, err
	}
	if d.loadPath.entries != nil && bytes.Equal(b, d.loadPath.entries) {
		return nil, nil, nil
	}
	words = append(make([]byte, 0, len(b)), b...)
	var missing error
	for ; len(b) > 0; b = b[8:] {
		text, err := d.Objects.Text(view.U64(b))
		switch {
		case err == view.ErrMissing:
			missing = err
		case err != nil:
			// the other entries keep their indexes in list. Because words is empty, the next call reads again
			text, words = "", words[:0]
		}
		list = append(list, text)
	}
	return words, list, missing
}

// loadPathValue returns the value of $LOAD_PATH, which is an Array.
func (d *validator) loadPathValue() (uint64, error) {
	if d.o.vmLoadPath >= 0 {
		return d.view.Word(d.target.VM + attach.Address(d.o.vmLoadPath))
	}
	if d.o.boxLoadPath < 0 {
		return 0, view.Unreadable(d.target.VM, 8)
	}
	for _, off := range [...]int{d.o.vmMainBox, d.o.vmRootBox} {
		if off < 0 {
			continue
		}
		box, err := d.view.Word(d.target.VM + attach.Address(off))
		if err != nil {
			return 0, err
		}
		if box != 0 {
			return d.view.Word(attach.Address(box) + attach.Address(d.o.boxLoadPath))
		}
	}
	return 0, view.Unreadable(d.target.VM, 8)
}
