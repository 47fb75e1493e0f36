package gc

import (
	"path"
	"strings"

	"github.com/ddtop/ddtop/attach"
)

// Foreign returns the name of the collector if the process has loaded a library with another collector than Ruby's own
// (3.4 and later, RUBY_GC_LIBRARY). The name is "mmtk" for librubygc.mmtk.so. ddtop cannot read the state of such a
// collector, because it is another struct (docs/internals/gc.md#the-object-space). Foreign returns "" for Ruby's own
// collector. This one is built in or in librubygc.default.so, with the same struct.
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
