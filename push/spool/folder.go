package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/internal/sorting"
)

const (
	// ending is the end of the name of a complete file. While a file is being written, its name ends with the value of
	// the constant unfinished instead.
	ending     = ".spooled"
	unfinished = ".tmp"
	// marked is the end of the name of a file that stores a mark. The name begins with the name of the entry to which
	// the mark belongs.
	marked = ".mark"
	// lockName is a file that is locked while a Queue has the folder open.
	lockName = "lock"
	// maxFile limits how much of one file is read, in bytes. maxFiles limits the files that are listed.
	maxFile  = 1 << 30
	maxFiles = 1 << 20
	// maxNumber limits the number in the name of an existing file. The numbers are times in ns, and maxNumber is a time
	// after the year 2100. A new entry gets a larger number than all existing ones. So the existing numbers must leave
	// room for larger ones.
	maxNumber = 1 << 62
)

// folder is a store that keeps each entry in a file.
type folder struct {
	path string

	mu   sync.Mutex // guards the following fields; it is not held during waits for the disk
	dir  *os.Root
	lock *os.File
	made int64 // how many times the folder was missing and was created again
}

// root returns the folder that is open now. remake can replace it by another one.
func (f *folder) root() *os.Root {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dir
}

// remade returns how many times the folder was created again because it was missing.
func (f *folder) remade() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.made
}

// remake creates the folder again if it was removed or replaced by another one. It returns errThere if the original
// folder is still in its place. Other errors come from openFolder.
func (f *folder) remake() error {
	old := f.root()
	was, err := old.Stat(".")
	if err != nil {
		return err
	}
	if is, err := os.Stat(f.path); err == nil && os.SameFile(was, is) {
		return errThere
	}
	fresh, err := openFolder(f.path)
	if err != nil {
		return err
	}
	f.mu.Lock()
	lock := f.lock
	f.dir, f.lock, f.made = fresh.dir, fresh.lock, f.made+1
	f.mu.Unlock()
	_, _ = lock.Close(), old.Close() // errors of closing a removed file do not matter
	return nil
}

// errThere means that the folder is still in its place.
var errThere = errors.New("the folder is there")

// nameOf returns the name of the entry with a number. If names are sorted, their numbers are in order, too.
func nameOf(number int64) string { return fmt.Sprintf("%020d%s", number, ending) }

// numberOf returns the number in an entry's name, or -1 if name is not the name of an entry.
func numberOf(name string) int64 {
	digits, ok := strings.CutSuffix(name, ending)
	if !ok || len(digits) != 20 {
		return -1
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > maxNumber {
		return -1
	}
	return n
}

// openFolder opens the folder of a spool. If the folder is missing, openFolder makes it.
func openFolder(path string) (_ *folder, err error) {
	dir, err := safefile.OwnFolder(path)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, path: path}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.lock, err = safefile.OpenOwn(dir, lockName, os.O_RDWR|os.O_CREATE); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, fmt.Errorf("locking it: %w", err)
	}
	return f, nil
}

// list returns the entries, oldest first, and removes unfinished files.
func (f *folder) list() ([]entry, error) {
	d, err := f.dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var out []entry
	marks := make(map[string]bool) // the marks in the folder, by the names of their entries
	for _, name := range names {
		plain, begun := strings.CutSuffix(name, unfinished)
		plain, mark := strings.CutSuffix(plain, marked)
		if numberOf(plain) < 0 {
			continue
		}
		if mark && !begun {
			marks[plain] = true
			continue
		}
		info, err := f.dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && safefile.OwnFile(info) != nil {
			continue // the file is gone, or another user has made it
		}
		if err != nil {
			return nil, err
		}
		if begun {
			if err := f.removeFile(name); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, entry{name: name, size: max(info.Size()-headerSize, 0)})
	}
	sorting.By(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for i := range out {
		e := &out[i]
		if marks[e.name] {
			e.mark = f.readMark(e.name)
			delete(marks, e.name)
		}
	}
	for name := range marks {
		// this mark has no entry: ddtop was killed after it had removed the entry
		if err := f.removeFile(name + marked); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// writeMark stores the mark of an entry in a file beside the entry's file.
func (f *folder) writeMark(name string, m Mark) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return f.writeTo(f.root(), name+marked, data)
}

// readMark reads the mark of an entry. It returns an empty mark if the file is missing or cannot be read.
func (f *folder) readMark(name string) Mark {
	var m Mark
	data, err := f.read(name + marked)
	if err != nil || json.Unmarshal(data, &m) != nil || m.Failed < 0 || m.Blamed < 0 {
		return Mark{}
	}
	if time.Until(m.Until) > maxUntil {
		m.Until = time.Time{}
	}
	return m
}

// magic is the beginning of the first line of each file. The line goes on with the content's length in 16 hexadecimal
// digits, a space, and the content's checksum (CRC-32C) in 8 digits. The content begins on the second line.
const magic = "ddtop spool 1 "

// headerSize is the length of a file's first line, in bytes.
const headerSize = int64(len(magic)) + 16 + 1 + 8 + 1

func header(data []byte) string {
	return fmt.Sprintf("%s%016x %08x\n", magic, len(data), crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// write writes a file completely or not at all, even if the machine crashes while it writes. If the folder is missing,
// write creates it again.
func (f *folder) write(name string, data []byte) error {
	err := f.writeTo(f.root(), name, data)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if failed := f.remake(); failed != nil {
		return errors.Join(err, failed)
	}
	return f.writeTo(f.root(), name, data)
}

func (f *folder) writeTo(dir *os.Root, name string, data []byte) (err error) {
	tmp := name + unfinished
	file, err := safefile.Create(dir, tmp, filepath.Join(f.path, tmp))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = dir.Remove(tmp) // the disk may be full or gone; the next start of ddtop removes the file
		}
	}()
	_, err = io.Copy(file, io.MultiReader(strings.NewReader(header(data)), bytes.NewReader(data)))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := dir.Rename(tmp, name); err != nil {
		return err
	}
	return syncNames(dir)
}

// syncNames writes the folder's list of names to the disk. After that, a crash of the machine cannot undo a change of
// the list.
func syncNames(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *folder) read(name string) ([]byte, error) {
	file, err := safefile.OpenOwn(f.root(), name, os.O_RDONLY)
	if errors.Is(err, safefile.ErrNotRegular) || errors.Is(err, safefile.ErrUntrusted) {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, err
	}
	if int64(len(all)) < headerSize || string(all[:headerSize]) != header(all[headerSize:]) {
		return nil, errDamaged
	}
	return all[headerSize:], nil
}

func (f *folder) remove(name string) error {
	return errors.Join(f.removeFile(name), f.removeFile(name+marked))
}

func (f *folder) removeFile(name string) error {
	if err := f.root().Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f *folder) close() error {
	f.mu.Lock()
	dir, lock := f.dir, f.lock
	f.mu.Unlock()
	if lock == nil {
		return dir.Close()
	}
	return errors.Join(lock.Close(), dir.Close())
}

// isFull reports whether an error means that the disk is full, or that the user's quota is used up.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
