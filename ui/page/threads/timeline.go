package threads

import (
	"github.com/ddtop/ddtop/ui/scene"
)

func (w *TableRow) Line() *scene.Row { return &w.Row }
