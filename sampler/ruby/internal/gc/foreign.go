package gc

import (
	"path"
	"strings"

	"github.com/ddtop/ddtop/attach"
)

// Foreign names the collector of a process that loaded another one than Ruby's own as a library (3.4 and later,
// RUBY_GC_LIBRARY): "mmtk" for librubygc.mmtk.so. Its objspace is another struct, of which nothing can be read here
// (docs/internals/gc.md#the-object-space). "" for Ruby's own, whether built in or in librubygc.default.so, which is the
// same.
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
