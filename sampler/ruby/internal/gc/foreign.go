package gc

import (
	"path"
	"strings"

	"github.com/ddtop/ddtop/attach"
)

// Foreign returns the name of a garbage collector that the process has loaded as a library (3.4 and later,
// RUBY_GC_LIBRARY). For example, it is "mmtk" for librubygc.mmtk.so. ddtop cannot read the state of such a collector,
// because its struct is different (docs/internals/gc.md#the-object-space). Foreign returns "" for Ruby's own collector,
// which is built in or in librubygc.default.so. Both have the same struct.
func Foreign(mappings []attach.Mapping) string {
	for i := range mappings {
		name, ok := strings.CutPrefix(path.Base(mappings[i].Path), "librubygc.")
		if !ok || !mappings[i].IsFile() {
			continue
		}
		if name, _, ok = strings.Cut(name, ".so"); ok && name != "default" && name != "" {
			return name
		}
	}
	return ""
}
