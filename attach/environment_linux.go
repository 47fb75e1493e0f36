package attach

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"

	"github.com/ddtop/ddtop/attach/mapped"
)

const (
	// maxVariables limits the number of variables that are read. maxVariable limits the length of each in bytes. A
	// longer variable is left out.
	maxVariables = 4096
	maxVariable  = 8192
)

// errNoEnviron is returned if the environment is not found in the process's memory.
var errNoEnviron = errors.New("its environment was not found")

// Environment returns the current values of the environment variables whose names are wanted. If they cannot be found
// in the process's memory, it returns the values with which the process was started. These start values are lost if the
// process has set its title, because Ruby writes the title in their place (docs/internals/context.md#the-environment).
// The error is ErrNoAnswer if the process does not answer.
func (p *Process) Environment(wanted func(name string) bool) (map[string]string, error) {
	found, err := Ask(p.pid, "reading its environment", func() (map[string]string, error) { return p.variablesNow(wanted) })
	if err == nil || errors.Is(err, ErrNoAnswer) {
		return found, err
	}
	text, err := p.askProc("environ")
	if err != nil && !errors.Is(err, errTooLong) {
		return nil, p.lost(err)
	}
	found = make(map[string]string)
	for variable := range strings.SplitSeq(string(text), "\x00") {
		addVariable(found, variable, wanted)
	}
	return found, nil
}

func addVariable(to map[string]string, variable string, wanted func(name string) bool) {
	if name, value, ok := strings.Cut(variable, "="); ok && wanted(name) {
		to[name] = value
	}
}

// variablesNow reads the variables through the C library's variable environ. If the program has its own copy of the
// variable environ, variablesNow reads this copy.
func (p *Process) variablesNow(wanted func(name string) bool) (map[string]string, error) {
	mappings, err := p.Maps()
	if err != nil {
		return nil, err
	}
	files := []string{p.exePath(mappings)}
	for _, path := range mapped.MappedFiles(mappings) {
		if name := filepath.Base(path); strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "libc-2.") || strings.HasPrefix(name, "ld-musl-") {
			files = append(files, path)
		}
	}
	for _, path := range files {
		m, err := p.Module(path, mappings)
		if err != nil {
			continue
		}
		s, ok := m.Symbol("environ")
		m.Close()
		if !ok {
			continue
		}
		if found, err := p.variablesAt(s.Addr, wanted); err == nil {
			return found, nil
		}
	}
	return nil, errNoEnviron
}

// variablesAt reads the environment variables. environ is the address of the pointer to their list.
func (p *Process) variablesAt(environ Address, wanted func(name string) bool) (map[string]string, error) {
	pointer := func(at Address) (Address, error) {
		var b [8]byte
		err := p.Read(at, b[:])
		return Address(binary.LittleEndian.Uint64(b[:])), err
	}
	list, err := pointer(environ)
	if err != nil {
		return nil, err
	}
	if list == 0 {
		return nil, errNoEnviron
	}
	found := make(map[string]string)
	for i := range maxVariables {
		at, err := pointer(list + Address(8*i))
		if err != nil {
			return nil, err
		}
		if at == 0 {
			break
		}
		text, err := mapped.ReadCString(p, at, maxVariable)
		if err == nil {
			addVariable(found, text, wanted)
		}
	}
	if again, err := pointer(environ); err != nil || again != list { // the environment was changed in the meantime
		return nil, errors.Join(errNoEnviron, err)
	}
	return found, nil
}
