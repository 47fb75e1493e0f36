// Command testsummary reads what `go test -json` printed and says what ran, against which Rubies, what was skipped and
// why, and what failed. Its last line is `N passed, N failed, N skipped`, with `N flaky` in it when a test failed and then
// passed. It exits with 1 when anything failed.
//
//	go test -json … | testsummary -follow FILE
//	testsummary -plan FILE [-again DIR]
//	testsummary [-record FILE] [-steps FILE] [-again DIR] [FILE…]
//
// With -follow it reads a run from standard input, prints a line a package and the output of what fails, and copies
// the events to FILE. With -plan it prints a line "PACKAGE PATTERN" for each failed test of the run in FILE that is to be
// run again, alone (internal/rerun says which may be); DIR holds the events of the runs made of them so far. Otherwise it
// sums up the FILEs, which hold the events of a run each.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	follow := flag.String("follow", "", "copy the events from standard input to `FILE`, and print progress")
	recordFile := flag.String("record", "", "the `FILE` that tests appended to what they ran against (DDTOP_TEST_RECORD)")
	stepsFile := flag.String("steps", "", "the `FILE` with a line \"pass NAME\", \"fail NAME\" or \"skip NAME\" for each step that was no test")
	planFile := flag.String("plan", "", "print which failed tests of the run in `FILE` are to be run again")
	againDir := flag.String("again", "", "the folder `DIR` with the events of failed tests that were run again, a file a run")
	flag.Parse()
	var failed bool
	var err error
	switch {
	case *follow != "":
		err = followRun(os.Stdin, os.Stdout, *follow)
	case *planFile != "":
		err = plan(os.Stdout, *planFile, *againDir)
	default:
		failed, err = summarise(os.Stdout, flag.Args(), *againDir, *recordFile, *stepsFile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// followRun copies a run's events to a file and prints its progress.
func followRun(r io.Reader, w io.Writer, path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	defer func() { err = errors.Join(err, buffered.Flush(), f.Close()) }()
	return readEvents(io.TeeReader(r, buffered), newProgress(w).event)
}

// summarise prints the summary and tells whether anything failed.
func summarise(w io.Writer, files []string, againDir, recordFile, stepsFile string) (failed bool, err error) {
	var all run
	again, err := readAgain(againDir)
	if err != nil {
		return true, err
	}
	for _, path := range files {
		r := newRun()
		if err := readFile(path, func(f io.Reader) error { return readEvents(f, r.event) }); err != nil {
			return true, err
		}
		r.end()
		r.judge(again)
		all.add(r)
	}
	if stepsFile != "" {
		if err := readFile(stepsFile, func(f io.Reader) error { return readSteps(f, &all) }); err != nil {
			return true, err
		}
	}
	var rubies byRuby
	if recordFile != "" {
		// No record means that no test asked for a Ruby; any other error would make the count wrong.
		err := readFile(recordFile, func(f io.Reader) error { return readRecord(f, &rubies) })
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return true, err
		}
	}
	if err := writeSummary(w, &all, &rubies); err != nil {
		return true, err
	}
	return all.failed() > 0, nil
}

func readFile(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := read(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
