package mapped

import (
	"fmt"
	"os"

	"github.com/ddtop/ddtop/internal/safefile"
)

// Duplicate returns a descriptor of the module's file, the one that was checked when the module was opened. A path may
// lead elsewhere by now. It is an error for a module that was read from memory.
func (m *Module) Duplicate() (*os.File, error) {
	f, ok := m.content.(*safefile.File)
	if !ok {
		return nil, fmt.Errorf("%s: %w", m.Path, errNoFile)
	}
	return f.Duplicate()
}
