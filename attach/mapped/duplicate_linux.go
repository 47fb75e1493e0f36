package mapped

import (
	"fmt"
	"os"

	"github.com/ddtop/ddtop/internal/safefile"
)

// Duplicate returns another descriptor of the file that was checked when the module was opened. The caller must not
// open the file by its path, because the path may lead to another file by now. Duplicate fails for a module that was
// read from memory.
func (m *Module) Duplicate() (*os.File, error) {
	f, ok := m.content.(*safefile.File)
	if !ok {
		return nil, fmt.Errorf("%s: %w", m.Path, errNoFile)
	}
	return f.Duplicate()
}
