package attach

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/ddtop/ddtop/attach/mapped"
)

// FindRuby finds the file with the Ruby VM in a process. It returns the first file that FindRubies finds.
func FindRuby(p *Process) (*Module, error) {
	rubies, err := FindRubies(p)
	if err != nil {
		return nil, err
	}
	for _, m := range rubies[1:] {
		m.Close()
	}
	return rubies[0], nil
}

// FindRubies finds the files of a process that can contain the Ruby VM. It examines every mapped libruby, the program
// and all other mapped libraries, and returns the files that define ruby_version. Files with a running VM come first.
// If there is no error, there is at least one file. The error is a *TargetError: ErrNotRuby with the kind of the
// process if known, ErrNotLoaded if the process is about to load Ruby, or ErrGone.
func FindRubies(p *Process) ([]*Module, error) {
	mappings, err := p.Maps()
	if err != nil {
		return nil, err
	}
	exe := p.exePath(mappings)
	rubies, program, refused := mapped.FindRubyModules(mapped.MappedImages(mappings), exe, p.moduleOf, func(m *Module) bool { return m.Runs(p) })
	if len(rubies) > 0 {
		return rubies, nil
	}
	if program != nil {
		defer program.Close()
	}
	if gone := p.stillThere(); gone != nil {
		return nil, gone
	}
	if refused != nil && !errors.Is(refused, ErrNotRuby) {
		return nil, refused
	}
	return nil, p.notRuby(exe, mapped.MappedFiles(mappings), program, refused)
}

// notRuby returns the error for a process that has no CRuby. The error says what kind of program the process runs
// instead.
func (p *facts) notRuby(exe string, paths []string, program *Module, refused error) error {
	fail := func(kind error, cause, help string) error {
		return &TargetError{PID: p.pid, Kind: kind, Cause: cause, Help: help, Programs: []string{exe, filepath.Base(exe)}}
	}
	if program != nil {
		for _, needed := range program.Needs() {
			if mapped.IsLibRuby(needed) {
				return fail(ErrNotLoaded, exe+" has not loaded "+needed+" yet: it is just starting", "Try again in a moment.")
			}
		}
	}
	if refused != nil {
		return refused
	}
	f := mapped.ForeignProgram{Exe: exe, Title: p.programTitle(), Libraries: paths,
		Section: func(string) bool { return false }, Symbol: func(string) bool { return false }}
	if program != nil {
		f.Section = program.HasSection
		f.Symbol = func(name string) bool { _, ok := program.Symbol(name); return ok }
	}
	what, help := f.Describe()
	return fail(ErrNotRuby, what, help)
}

// programTitle returns the whole command line. notRuby searches it for the kind of a foreign program, such as the
// program that a Java VM runs. The command line itself is never displayed.
func (p *facts) programTitle() string {
	args, err := p.CommandLine()
	if err != nil {
		return ""
	}
	return strings.Join(args, " ")
}
