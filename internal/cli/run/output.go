package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/safefile"
)

// Output is where a command writes its file: a path, or "-" for standard output.
type Output string

// Check refuses a destination that ddtop cannot write. Commands call it before they measure, so that the measurement is
// not lost.
func (o Output) Check(command string, binary bool, std Streams) error {
	switch {
	case o == "":
		return flags.Usagef("%s needs -o FILE, or -o - for standard output", command)
	case o == "-":
		if f, ok := std.Out.(*os.File); ok && binary && term.IsTerminal(int(f.Fd())) {
			return flags.Usagef("this is not text for a terminal: name a file with -o FILE")
		}
		return nil
	}
	if _, ok := o.descriptor(); ok {
		return nil
	}
	p, err := safefile.Locate(string(o))
	if err != nil {
		return err
	}
	defer p.Close()
	if p.Special() {
		if p.Info.IsDir() {
			return flags.Usagef("%s is a folder: -o takes a file", o)
		}
		return nil // a device or a pipe is written directly, without a temporary file
	}
	probe, err := p.Begin()
	if err != nil {
		return fmt.Errorf("%w: it is written under another name in the same folder until it is complete, so that folder has to be one you may write to", err)
	}
	return probe.Abort()
}

// Spare returns an error if the output file is one of the files at paths. The command reads these files, so it must not
// overwrite them.
func (o Output) Spare(paths ...string) error {
	to, err := os.Stat(string(o))
	if err != nil || !to.Mode().IsRegular() {
		return nil // there is no file to overwrite
	}
	for _, path := range paths {
		if from, err := os.Stat(path); err == nil && os.SameFile(from, to) {
			return flags.Usagef("-o %s would write over the file that is read: choose another name", o)
		}
	}
	return nil
}

// descriptor returns which of ddtop's open descriptors a path such as /dev/stdout means. ddtop writes to this
// descriptor instead of the path. Otherwise it would replace the file that the shell has opened.
func (o Output) descriptor() (fd int, ok bool) {
	switch o {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, folder := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if n, found := strings.CutPrefix(string(o), folder); found {
			fd, err := strconv.Atoi(n)
			return fd, err == nil && fd >= 0
		}
	}
	return 0, false
}

// openDescriptor duplicates a descriptor, so that the caller can close the copy while the original stays open.
func (o Output) openDescriptor(fd int) (*os.File, error) {
	own, err := syscall.Dup(fd)
	if err != nil {
		return nil, fmt.Errorf("%s can't be written: %w", o, err)
	}
	return os.NewFile(uintptr(own), string(o)), nil
}

// Write writes the whole output file. If writing fails, an existing file keeps its content. If the output is a pipe
// without a reader, Write gives up a while after ctx has ended.
func (o Output) Write(ctx context.Context, std Streams, write func(io.Writer) error) error {
	if o == "-" {
		return write(std.Results(ctx))
	}
	if fd, ok := o.descriptor(); ok {
		f, err := o.openDescriptor(fd)
		if err != nil {
			return err
		}
		return errors.Join(write(&patientWriter{ctx: ctx, to: f}), f.Close())
	}
	giveUp, released := Patience(ctx)
	defer released()
	if err := safefile.WriteFile(string(o), o.waiting(giveUp, std), write); err != nil {
		if !strings.Contains(err.Error(), string(o)) { // not every error names the file
			err = fmt.Errorf("writing %s: %w", o, err)
		}
		return err
	}
	o.say(std)
	return nil
}

// Partial is the ending of a recording's file name while the recording is incomplete, if the recording is to replace an
// existing file.
const Partial = ".partial"

// streamed is an output file that ddtop writes while it measures.
type streamed struct {
	io.Writer
	// Done ends the writing. complete is true if the caller has written everything.
	Done func(complete bool) error
	// The field There is true if the file has its final name from the start. Otherwise the file has a temporary name
	// until it is complete.
	There bool
	// Kept says where the data written so far remains if the file is not completed. It is empty if the output is not a
	// file.
	Kept string
}

// Stream opens a file to write while ddtop measures, so that the samples so far are safe if ddtop is killed. It keeps
// an existing file until the new one is complete. Until then the new file has another name in the same folder
// (Partial). If the output is a pipe, Stream waits for a reader until giveUp is closed.
func (o Output) Stream(giveUp <-chan struct{}, std Streams) (s streamed, err error) {
	if o == "-" {
		return streamed{Writer: std.Out, Done: func(bool) error { return nil }}, nil
	}
	if fd, ok := o.descriptor(); ok {
		f, err := o.openDescriptor(fd)
		if err != nil {
			return streamed{}, err
		}
		return streamed{Writer: f, Done: func(bool) error { return f.Close() }}, nil
	}
	p, err := safefile.Locate(string(o))
	if err != nil {
		return streamed{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.Special() {
		f, err := p.OpenSpecial(o.waiting(giveUp, std))
		if err != nil {
			return streamed{}, err
		}
		return streamed{Writer: f, Done: func(bool) error { return errors.Join(f.Close(), p.Close()) }}, nil
	}
	var f *safefile.Pending
	if p.Info == nil {
		f, err = p.BeginThere()
		s.There = true
		s.Kept = fmt.Sprintf("what was measured until then is in %s", o)
	} else if f, err = p.BeginBeside(Partial); err == nil {
		std.Say("%s stays as it is until the recording is complete: until then that is %s", o, f.Path())
		s.Kept = fmt.Sprintf("%s is as it was; what was measured is in %s", o, f.Path())
	}
	if err != nil {
		return streamed{}, err
	}
	s.Writer = f
	s.Done = func(complete bool) error {
		defer p.Close()
		if !complete {
			return f.Close()
		}
		if err := f.Commit(); err != nil {
			return err
		}
		o.say(std)
		return nil
	}
	return s, nil
}

// waiting returns a Waiting that prints a message when ddtop begins to wait for the reader of a pipe.
func (o Output) waiting(giveUp <-chan struct{}, std Streams) safefile.Waiting {
	return safefile.Waiting{GiveUp: giveUp, Begins: func() { std.Say("waiting for a program that reads %s", o) }}
}

func (o Output) say(std Streams) {
	if o != "-" {
		std.Say("wrote %s", o)
	}
}
