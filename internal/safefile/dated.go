package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/ddtop/ddtop/internal/sorting"
)

// DateFormat is the format of the time in a dated file's name (DatedName). The time is in UTC.
const DateFormat = "20060102T150405.000Z"

// DatePattern matches the beginning of a dated file's name: PROGRAM-PID-TIME (DatedName). Its group captures the time,
// in DateFormat.
const DatePattern = `[\w.+-]+-\d+-(\d{8}T\d{6}\.\d{3}Z)`

// maxTitle limits how much of a program's name is used in a file's name, in bytes.
const maxTitle = 64

// DatedName returns the beginning of the name of a file about a process, PROGRAM-PID-TIME. at is the time in the name.
func DatedName(title string, pid int, at time.Time) string {
	title = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.+-", r) {
			return r
		}
		return '_'
	}, title)
	if len(title) > maxTitle {
		title = title[:maxTitle]
	}
	if title = strings.TrimLeft(title, ".-"); title == "" {
		title = "ruby"
	}
	return fmt.Sprintf("%s-%d-%s", title, pid, at.UTC().Format(DateFormat))
}

// Names lists the regular files of a folder. For each file whose name the function wanted accepts, it calls the
// function each. It reads at most limit names, including the names that wanted does not accept.
func Names(folder *os.Root, limit int, wanted func(name string) bool, each func(name string, info fs.FileInfo)) error {
	dir, err := folder.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		if !wanted(name) {
			continue
		}
		// If this fails, the file was removed in the meantime, or it is not a regular file. Leave it out.
		if info, err := folder.Lstat(name); err == nil && info.Mode().IsRegular() {
			each(name, info)
		}
	}
	return nil
}

// A DatedFile is a file whose name begins with a program, a PID and a time, as DatedName makes it.
type DatedFile struct {
	Name string
	At   time.Time
	Size int64
}

// DatedFiles returns the files of a folder whose names match a pattern. The oldest file comes first. The pattern must
// begin with DatePattern. limit bounds how many names DatedFiles reads.
func DatedFiles(folder *os.Root, limit int, pattern *regexp.Regexp) (list []DatedFile, err error) {
	err = Names(folder, limit, pattern.MatchString, func(name string, info fs.FileInfo) {
		if at, err := time.Parse(DateFormat, pattern.FindStringSubmatch(name)[1]); err == nil {
			list = append(list, DatedFile{name, at, info.Size()})
		}
	})
	sorting.StableBy(list, func(a, b DatedFile) int { return a.At.Compare(b.At) })
	return list, err
}
