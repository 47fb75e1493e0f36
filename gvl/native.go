package gvl

import (
	"slices"
	"strings"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// maxChain limits the functions in a NativeChain. If a stack has more functions, the chain has the outermost and the
// innermost ones.
const maxChain = 6

// NativeLines returns a line of text for each C function, innermost first. If consecutive functions of one library have
// no name, they share a line.
func NativeLines(frames []sampler.NativeFrame) (lines []string) {
	for i := 0; i < len(frames); {
		f := &frames[i]
		i++
		if f.Name != "" {
			lines = append(lines, f.Name+" ["+f.Library+"]")
			continue
		}
		n := 1
		for ; i < len(frames) && frames[i].Name == "" && frames[i].Library == f.Library; i++ {
			n++
		}
		lines = append(lines, f.Library+" ("+units.Plural(n, "function", "functions")+")")
	}
	return lines
}

// NativeChain returns the names of C functions, outermost first: "PQgetResult → poll". It leaves out functions without
// a name, unless no function has a name. It is "" if there are no functions.
func NativeChain(frames []sampler.NativeFrame) string {
	var names []string
	for _, f := range slices.Backward(frames) {
		if f.Name != "" {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		names = NativeLines(frames)
		slices.Reverse(names)
	}
	if n := len(names); n > maxChain {
		names = slices.Concat(names[:maxChain/2], []string{"…"}, names[n-maxChain/2:])
	}
	return strings.Join(names, " → ")
}

// NativePlace returns the NativeChain of a native stack, followed by what the kernel does: "fsync → waits for the disk
// to flush".
func NativePlace(s *sampler.NativeStack) string {
	chain := NativeChain(s.Frames)
	if chain != "" && s.Kernel != "" {
		chain += " → "
	}
	return chain + s.Kernel
}
