package gc

import (
	"path"
	"strings"

	"github.com/ddtop/ddtop/attach"
)

// Foreign returns the name of the collector if the process loaded a library with another one than Ruby's own (3.4 and
// later, RUBY_GC_LIBRARY). The name is "mmtk" for librubygc.mmtk.so. Its objspace is another struct, which ddtop cannot
// read (docs/internals/gc.md#the-object-space). It returns "" for Ruby's own collector, whether built in or in
// librubygc.default.so, which is the same.
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
