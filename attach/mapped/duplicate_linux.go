package mapped

import (
	"fmt"
	"os"

	"github.com/ddtop/ddtop/internal/safefile"
)

// Duplicate returns another descriptor of the file that was checked when the module was opened, because the path may
// lead to another file by now. It fails for a module that was read from memory.
func (m *Module) Duplicate() (*os.File, error) {
	f, ok := m.content.(*safefile.File)
	if !ok {
		return nil, fmt.Errorf("%s: %w", m.Path, errNoFile)
	}
	return f.Duplicate()
}
