// Package files stores profiles in a folder, one file for each process and period. Programs that read pprof can use
// them. The package removes files that are too old or exceed the limit of the total size.
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
	// defaultAge and defaultBytes limit the age and the total size of the files, if the URL sets no limits.
	defaultAge   = 7 * 24 * time.Hour
	defaultBytes = 1 << 30
	// listEvery is how often the list of the folder's files is read again, because other programs may have removed
	// files.
	listEvery = time.Hour
	// maxListed limits the number of files in the list.
	maxListed = 1 << 20
)

// ours matches the names of files that this package writes: PROGRAM-PID-TIME.pb.gz. The package never touches files
// with other names.
var ours = regexp.MustCompile(`^` + safefile.DatePattern + `\.pb\.gz$`)

// unfinished matches the names of unfinished files, which remain if ddtop is killed.
var unfinished = regexp.MustCompile(`^\.` + safefile.DatePattern + `\.pb\.gz-[0-9a-f]{8}$`)

// Folder is a push.Destination that writes files into a folder.
type Folder struct {
	path string
	// ours and unfinished match the names of finished and unfinished files that ddtop writes into this folder. The
	// function name returns the file name for a payload.
	ours, unfinished *regexp.Regexp
	name             func(*push.Payload) (string, error)

	maxAge   time.Duration
	maxBytes int64

	mu       sync.Mutex
	kept     []safefile.DatedFile // oldest first
	bytes    int64
	listedAt time.Time
}

// New returns the destination of a URL file:///FOLDER. The parameters max-age and max-size set limits, as in
// file:///var/profiles?max-age=48h&max-size=500MB. New makes a missing folder. The folder must belong to a trusted
// user, and other users must not be able to write to it (safefile.OwnFolder).
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

// String returns the URL without its parameters.
func (d *Folder) String() string { return "file://" + d.path }

// Encode returns a payload with the pprof profile unchanged.
func (d *Folder) Encode(p *push.Period) (push.Payload, error) {
	return push.Payload{Body: p.Pprof}, nil
}

// nameOf returns the name of a payload's file. The same payload always gets the same name.
func nameOf(p *push.Payload) string {
	return safefile.DatedName(p.Title, p.PID, p.From) + ".pb.gz"
}

// Send writes a profile into a file. After that it removes files that are too old, or that exceed the limit of the
// total size.
func (d *Folder) Send(_ context.Context, p *push.Payload) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	folder, err := safefile.OwnFolder(d.path) // opens the folder again, because a user may have removed it
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

// list reads the names of the folder's files into d, and removes files that a killed ddtop left unfinished.
func (d *Folder) list(folder *os.Root, now time.Time) error {
	d.bytes, d.listedAt = 0, now
	err := safefile.Names(folder, maxListed, d.unfinished.MatchString, func(name string, info fs.FileInfo) {
		if now.Sub(info.ModTime()) > listEvery {
			_ = folder.Remove(name) // after an error the next call tries again
		}
	})
	if err == nil {
		d.kept, err = safefile.DatedFiles(folder, maxListed, d.ours)
	}
	if err != nil {
		d.kept, d.listedAt = nil, time.Time{} // the next call tries again
	}
	for _, f := range d.kept {
		d.bytes += f.Size
	}
	return err
}

// maxAhead limits how far the time in a file's name may be ahead of the clock. If it is further ahead, the clock was
// set back after the file was written.
const maxAhead = time.Hour

// rotate removes the oldest files until the folder is within its limits. It never removes the newest file. If the clock
// was set back, some files have times in the future. rotate treats them as the oldest files. Otherwise they would stay
// forever, and each new file would be removed instead.
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
