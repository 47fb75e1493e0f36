package attach

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach/mapped"
)

// threadLocalPatience limits how long the process's files are searched for a variable. A hundred libraries take about
// 10 ms.
const threadLocalPatience = 2 * time.Second

// ThreadLocal finds a thread-local variable by name. It searches the exports of the process's program and libraries.
// mappings are the process's mappings. The error is ErrNoThreadLocal if there is no such variable, or if its place in
// threads is unknown. Another error means that the process cannot be read.
func (p *Process) ThreadLocal(name string, mappings []Mapping) (ThreadLocal, error) {
	files := mapped.MappedFiles(mappings)
	vectors := false
	for _, path := range files {
		base := filepath.Base(path)
		vectors = vectors || strings.HasPrefix(base, "ld-linux-") || strings.HasPrefix(base, "ld-2.") // glibc's dynamic linker
	}
	exe := p.exePath(mappings)
	failed := error(mapped.ErrNoThreadLocal)
	deadline := time.Now().Add(threadLocalPatience)
	for _, path := range files[:min(len(files), mapped.MaxLibraries)] {
		if time.Now().After(deadline) {
			break
		}
		if path != exe && !strings.Contains(filepath.Base(path), ".so") {
			continue
		}
		m, err := p.Module(path, mappings)
		if errors.Is(err, ErrGone) || errors.Is(err, ErrReplaced) {
			return ThreadLocal{}, err
		}
		if err != nil {
			continue // an unreadable file has no symbols
		}
		var v ThreadLocal
		has := false
		if m.HasThreadLocals() {
			if _, has = m.Exported(name); has {
				v, err = m.ThreadLocal(p, name, path == exe, vectors)
			}
		}
		m.Close()
		switch {
		case has && err == nil:
			return v, nil
		case has:
			failed = err
		}
	}
	return ThreadLocal{}, failed
}
