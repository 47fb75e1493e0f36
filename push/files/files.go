// Package files keeps profiles in a folder, a file a process and period, for `go tool pprof` and whatever else reads
// pprof. What is too old, or too much, is removed.
package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/push"
)

const (
	// defaultAge and defaultBytes limit the age and the size of the kept files, if the URL does not.
	defaultAge   = 7 * 24 * time.Hour
	defaultBytes = 1 << 30
	// listEvery is the interval at which the folder is read again, because other programs may remove files, too.
	listEvery = time.Hour
	// maxListed bounds the files that are read.
	maxListed = 1 << 20
)

// ours matches this package's names: PROGRAM-PID-TIME.pb.gz. Other files are never touched.
var ours = regexp.MustCompile(`^` + safefile.DatePattern + `\.pb\.gz$`)

// unfinished matches the names of files that were being written when ddtop was killed.
var unfinished = regexp.MustCompile(`^\.` + safefile.DatePattern + `\.pb\.gz-[0-9a-f]{8}$`)

// Folder is a push.Destination.
type Folder struct {
	path string
	// ours and unfinished match the names of its files, whole and partial. name is the name of a payload's file.
	ours, unfinished *regexp.Regexp
	name             func(*push.Payload) (string, error)

	maxAge   time.Duration
	maxBytes int64

	mu       sync.Mutex
	kept     []safefile.DatedFile // oldest first
	bytes    int64
	listedAt time.Time
}

// New returns the destination of a URL file:///FOLDER, with max-age and max-size as its parameters:
// file:///var/profiles?max-age=48h&max-size=500MB. It makes a missing folder. The folder must be ddtop's own
// (safefile.OwnFolder).
func New(u *url.URL) (*Folder, error) {
	if u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.User != nil {
		return nil, fmt.Errorf("a folder is named by its whole path, as in file:///var/profiles")
	}
	d := &Folder{path: filepath.Clean(u.Path), maxAge: defaultAge, maxBytes: defaultBytes, ours: ours, unfinished: unfinished}
	d.name = func(p *push.Payload) (string, error) { return nameOf(p), nil }
	for key, values := range u.Query() {
		var err error
		switch value := values[len(values)-1]; key {
		case "max-age":
			if d.maxAge, err = time.ParseDuration(value); err != nil || d.maxAge <= 0 {
				err = fmt.Errorf("%q is not a time such as 48h or 30m", value)
			}
		case "max-size":
			d.maxBytes, err = units.ParseBytes(value)
		default:
			err = errors.New("there are max-age and max-size")
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", key, err)
		}
	}
	folder, err := safefile.OwnFolder(d.path)
	if err != nil {
		return nil, err
	}
	return d, folder.Close()
}

// String is the URL.
func (d *Folder) String() string { return "file://" + d.path }

// Encode returns the pprof file unchanged.
func (d *Folder) Encode(p *push.Period) (push.Payload, error) {
	return push.Payload{Body: p.Pprof}, nil
}

// nameOf is the name of a payload's file. A payload that is sent twice has one file.
func nameOf(p *push.Payload) string {
	return safefile.DatedName(p.Title, p.PID, p.From) + ".pb.gz"
}

// Send writes a file, and removes files that are too old or too large in total.
func (d *Folder) Send(_ context.Context, p *push.Payload) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	folder, err := safefile.OwnFolder(d.path) // a user may have removed it
	if err != nil {
		return err
	}
	defer folder.Close()
	now := time.Now()
	if now.Sub(d.listedAt) >= listEvery {
		if err := d.list(folder, now); err != nil {
			return err
		}
	}
	name, err := d.name(p)
	if err != nil {
		return err
	}
	err = safefile.At(folder, filepath.Join(d.path, name)).Write(func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(p.Body))
		return err
	})
	if err != nil {
		return err
	}
	f := safefile.DatedFile{Name: name, At: p.From, Size: int64(len(p.Body))}
	if i := slices.IndexFunc(d.kept, func(k safefile.DatedFile) bool { return k.Name == name }); i >= 0 {
		d.bytes += f.Size - d.kept[i].Size
		d.kept[i] = f
	} else {
		d.kept = append(d.kept, f)
		d.bytes += f.Size
	}
	d.rotate(folder, now)
	return nil
}

// list reads the names of the files, and removes unfinished ones.
func (d *Folder) list(folder *os.Root, now time.Time) error {
	d.bytes, d.listedAt = 0, now
	err := safefile.Names(folder, maxListed, d.unfinished.MatchString, func(name string, info fs.FileInfo) {
		if now.Sub(info.ModTime()) > listEvery {
			_ = folder.Remove(name) // the next time
		}
	})
	if err == nil {
		d.kept, err = safefile.DatedFiles(folder, maxListed, d.ours)
	}
	if err != nil {
		d.kept, d.listedAt = nil, time.Time{} // the next time
	}
	for _, f := range d.kept {
		d.bytes += f.Size
	}
	return err
}

// maxAhead is how far a file may be ahead of the clock. A file further ahead is from before the clock was set back.
const maxAhead = time.Hour

// rotate removes the oldest files until the limits hold. The newest always stays. Files that are ahead of the clock
// count as the oldest: else they would stay, and each new file would be the one that is removed.
func (d *Folder) rotate(folder *os.Root, now time.Time) {
	order := func(f safefile.DatedFile) time.Time {
		if f.At.Sub(now) > maxAhead {
			return time.Time{}
		}
		return f.At
	}
	sorting.StableBy(d.kept, func(a, b safefile.DatedFile) int { return order(a).Compare(order(b)) })
	n := 0
	for n < len(d.kept)-1 && (d.bytes > d.maxBytes || now.Sub(d.kept[n].At) > d.maxAge) {
		if err := folder.Remove(d.kept[n].Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.listedAt = time.Time{} // the file still exists; the next call tries again
		}
		d.bytes -= d.kept[n].Size
		n++
	}
	d.kept = d.kept[n:]
}
