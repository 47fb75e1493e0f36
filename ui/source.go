package ui

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// maxSourceBytes bounds what is read of a source file, maxSourceFiles how many files are kept.
	maxSourceBytes = 2 << 20
	maxSourceFiles = 16
)

// sourceFile is a file of the target's program, or why there is none.
type sourceFile struct {
	lines []string
	// newer: it was changed after the program started, so its lines need not be those that run.
	newer bool
	err   error
	// pending: it is being read.
	pending bool
}

// sourceMsg brings a file that was read.
type sourceMsg struct {
	path string
	file *sourceFile
}

// sources are the files read so far, by path as the target has it.
type sources struct {
	files map[string]*sourceFile
	order []string // oldest first
}

// get returns a file; nil when it was not asked for.
func (s *sources) get(path string) *sourceFile { return s.files[path] }

// put keeps a file, and forgets the oldest when there are too many.
func (s *sources) put(path string, f *sourceFile) {
	if s.files == nil {
		s.files = make(map[string]*sourceFile)
	}
	if s.files[path] == nil {
		if len(s.order) >= maxSourceFiles {
			delete(s.files, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, path)
	}
	s.files[path] = f
}

// fetch returns the command that reads a file the way the target sees it. startedAt is when the target started.
func (s *sources) fetch(pid int, path string, startedAt time.Time) tea.Cmd {
	if s.get(path) != nil {
		return nil
	}
	s.put(path, &sourceFile{pending: true})
	return func() tea.Msg {
		return sourceMsg{path, readSource(fmt.Sprintf("/proc/%d/root", pid), path, startedAt)}
	}
}

// startSlack is by how much a file must be younger than the process to count as changed since: the start is known to a clock tick
// (10 ms), a program's files are often written just before it is started, and what changes in its first second it has hardly read.
const startSlack = time.Second

// readSource reads a file under a target's root folder. Nothing outside that folder is read: os.Root refuses links that
// lead out of it, which would be another container's or the host's file. A FIFO or device is not opened.
func readSource(root, path string, startedAt time.Time) *sourceFile {
	fail := func(err error) *sourceFile {
		if errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w (reading files of another user's process needs root or CAP_SYS_PTRACE)", err)
		}
		return &sourceFile{err: err}
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	f, err := dir.OpenFile(strings.TrimLeft(path, "/"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	if !info.Mode().IsRegular() {
		return fail(fmt.Errorf("%s is no regular file", path))
	}
	out := &sourceFile{newer: !startedAt.IsZero() && info.ModTime().Sub(startedAt) > startSlack}
	in := bufio.NewScanner(io.LimitReader(f, maxSourceBytes))
	in.Buffer(nil, maxSourceBytes)
	for in.Scan() {
		out.lines = append(out.lines, strings.ReplaceAll(strings.TrimRight(in.Text(), "\r"), "\t", "  "))
	}
	if err := in.Err(); err != nil {
		return fail(fmt.Errorf("reading %s: %w", path, err))
	}
	return out
}
