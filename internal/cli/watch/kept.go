package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/internal/sorting"
)

const (
	// maxKeptListed limits how many files of a folder ddtop lists. maxSameName limits how many files may have names
	// that differ only in their final number.
	maxKeptListed = 1 << 16
	maxSameName   = 100
)

// keptName matches the file names of ddtop's recordings: PROGRAM-PID-TIME-REASON.ddtop. ddtop never removes or changes
// other files.
var keptName = regexp.MustCompile(`^` + safefile.DatePattern + `-[a-z0-9_]+(-\d+)?\.ddtop(\.partial)?$`)

// Folder is a folder of recordings with limits on their number and total size. The goroutines of all watched processes
// use it. Each call of a method may wait for the disk.
type Folder struct {
	path  string
	count int   // largest number of recordings, without those being written
	bytes int64 // largest total size, with those being written
	// removed is called for each recording that ddtop removes to keep the limits.
	removed func(path string, size int64)

	mu    sync.Mutex
	seq   int
	order map[string]int // number of each file of this run, in the order of incidents
	open  map[string]bool
}

// NewFolder returns a folder with limits on the number of recordings and their total size.
func NewFolder(path string, count int, bytes int64) *Folder {
	return &Folder{path: path, count: count, bytes: bytes}
}

type keptFile struct {
	safefile.DatedFile
	nth  int // number in this run; zero for an earlier run, or another ddtop
	open bool
}

// Check makes the folder if it does not exist. It returns an error if ddtop cannot write to the folder.
func (k *Folder) Check() error {
	if info, err := os.Stat(k.path); err == nil && !info.IsDir() {
		return flags.Usagef("%s is a file: with --when -o takes the folder of the recordings", k.path)
	}
	folder, err := safefile.OwnFolder(k.path)
	if err != nil {
		return err
	}
	at := safefile.At(folder, filepath.Join(k.path, "probe"))
	defer at.Close()
	probe, err := at.Begin()
	if err != nil {
		return err
	}
	return probe.Abort()
}

func keptFileName(title string, pid int, at time.Time, reason string) string {
	return safefile.DatedName(title, pid, at) + "-" + reason
}

// keptRecording is a recording that is being written. Until it is complete, its file has the suffix ".partial".
type keptRecording struct {
	*safefile.Pending
	to     *safefile.Destination
	folder *Folder
	name   string
	path   string
}

// begin creates the file of a recording, and the folder if it is missing. base is the name without the suffix.
func (k *Folder) begin(base string) (*keptRecording, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	folder, err := safefile.OwnFolder(k.path)
	if err != nil {
		return nil, err
	}
	name := ""
	for n := 1; ; n++ {
		if name = base + ".ddtop"; n > 1 {
			name = fmt.Sprintf("%s-%d.ddtop", base, n)
		}
		_, done := folder.Lstat(name)
		_, partly := folder.Lstat(name + run.Partial)
		if errors.Is(done, fs.ErrNotExist) && errors.Is(partly, fs.ErrNotExist) || n >= maxSameName {
			break
		}
	}
	r := &keptRecording{folder: k, name: name, path: filepath.Join(k.path, name)}
	r.to = safefile.At(folder, r.path)
	if r.Pending, err = r.to.BeginBeside(run.Partial); err != nil {
		return nil, errors.Join(err, r.to.Close())
	}
	// The lock on the file shows other ddtop processes that this file is still being written. Errors are ignored,
	// because some file systems have no locks.
	_ = unix.Flock(int(r.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if k.order == nil {
		k.order, k.open = make(map[string]int), make(map[string]bool)
	}
	k.seq++
	k.order[name] = k.seq
	k.open[name] = true
	return r, nil
}

// close ends the recording. If whole is true, the recording is complete, and its file gets the final name. If whole is
// false and some is true, the file has some samples, and stays as a partial file. If both are false, close removes the
// file. The result kept is the path of the file, or "" if it was removed.
func (r *keptRecording) close(whole, some bool) (kept string, err error) {
	defer r.to.Close()
	switch {
	case whole:
		if err = r.Commit(); err == nil {
			kept = r.path
		}
	case some:
		kept, err = r.Pending.Path(), r.File.Close()
	default:
		err = r.Abort()
	}
	r.folder.mu.Lock()
	defer r.folder.mu.Unlock()
	delete(r.folder.open, r.name)
	return kept, err
}

// trim removes the oldest recordings until the folder is within its limits and has room for as many more bytes as the
// parameter spare says. It never removes the newest recording. The result enough is false if the remaining recordings
// still exceed the size limit.
func (k *Folder) trim(spare int64) (enough bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	folder, err := safefile.OwnFolder(k.path)
	if err != nil {
		return true, err
	}
	defer folder.Close()
	list, err := k.list(folder)
	if err != nil {
		return true, err
	}
	bytes, count := spare, 0
	for _, f := range list {
		if bytes += f.Size; !f.open {
			count++
		}
	}
	for i, f := range list {
		if bytes <= k.bytes && count <= k.count {
			return true, nil
		}
		if f.open || i == len(list)-1 || k.writtenByOthers(folder, f.Name) {
			continue
		}
		if err := folder.Remove(f.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, fmt.Errorf("folder %s: removing the oldest recording: %w", k.path, err)
		}
		bytes -= f.Size
		count--
		k.removed(filepath.Join(k.path, f.Name), f.Size)
	}
	return bytes <= k.bytes, nil
}

// writtenByOthers reports whether another ddtop process is writing a file. It does so by trying to lock the file.
func (k *Folder) writtenByOthers(folder *os.Root, name string) bool {
	if !strings.HasSuffix(name, run.Partial) {
		return false
	}
	f, err := folder.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// list returns the recordings in the folder, the oldest first. Recordings that this ddtop made are in the order of
// their incidents, even if the clock was set in between.
func (k *Folder) list(folder *os.Root) ([]keptFile, error) {
	files, err := safefile.DatedFiles(folder, maxKeptListed, keptName)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", k.path, err)
	}
	var list []keptFile
	for _, f := range files {
		whole := strings.TrimSuffix(f.Name, run.Partial)
		list = append(list, keptFile{f, k.order[whole], k.open[whole]})
	}
	for name := range k.order { // forget files that a user has removed
		if !k.open[name] && !slices.ContainsFunc(list, func(f keptFile) bool { return strings.TrimSuffix(f.Name, run.Partial) == name }) {
			delete(k.order, name)
		}
	}
	sorting.StableBy(list, func(a, b keptFile) int {
		if a.nth != 0 || b.nth != 0 {
			return a.nth - b.nth
		}
		return a.At.Compare(b.At)
	})
	return list, nil
}
