package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"github.com/ddtop/ddtop/export"
)

// output is where a command writes a file: a path, or "-" for standard output.
type output string

// check refuses what would otherwise fail after the measurement.
func (o output) check(command string, binary bool, std Streams) error {
	switch {
	case o == "":
		return usageErrorf("%s needs -o FILE, or -o - for standard output", command)
	case o == "-":
		if f, ok := std.Out.(*os.File); ok && binary && term.IsTerminal(int(f.Fd())) {
			return usageErrorf("this is no text for a terminal: name a file with -o FILE")
		}
		return nil
	}
	if info, err := os.Stat(string(o)); err == nil {
		switch {
		case info.IsDir():
			return usageErrorf("%s is a folder: -o takes a file", o)
		case !info.Mode().IsRegular():
			return nil // a device or a pipe: nothing is created beside it
		}
	}
	probe, err := os.CreateTemp(filepath.Dir(string(o)), ".ddtop-*")
	if err != nil {
		return fmt.Errorf("%s can't be written: %w", o, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// write writes the whole file, or what it held before stays.
func (o output) write(std Streams, write func(io.Writer) error) error {
	if o == "-" {
		return write(std.Out)
	}
	if err := export.WriteFile(string(o), write); err != nil {
		return err
	}
	o.say(std)
	return nil
}

// stream opens the file for writing while it is measured: what is written stays, however ddtop ends. Like every file of
// ddtop's it is for its owner alone, which one that was there before need not be.
func (o output) stream(std Streams) (w io.Writer, done func() error, err error) {
	if o == "-" {
		return std.Out, func() error { return nil }, nil
	}
	f, err := os.OpenFile(string(o), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		if err = f.Chmod(0o600); err != nil {
			err = fmt.Errorf("%w: others may read it, and it is not yours to change that: name another file", err)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, f.Close, nil
}

func (o output) say(std Streams) {
	if o != "-" {
		fmt.Fprintf(std.Err, "ddtop: wrote %s\n", o)
	}
}
