package native

import (
	"slices"

	"github.com/ianlancetaylor/demangle"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/sampler"
)

// maxNames bounds how many function names are kept for one file.
const maxNames = 1 << 14

// maxMangled is the largest size of a symbol, in bytes, that is turned into a readable name. The name has at most
// 1<<maxReadable bytes. Longer symbols stay as they are.
const maxMangled, maxReadable = 1024, 10

// readable turns the symbol of a C++ or Rust function into its name, without parameters. Other symbols stay unchanged.
func readable(symbol string) string {
	if len(symbol) > maxMangled || len(symbol) < 3 || symbol[0] != '_' {
		return symbol
	}
	return demangle.Filter(symbol, demangle.NoParams, demangle.NoTemplateParams, demangle.NoClones,
		demangle.MaxLength(maxReadable))
}

// Names returns frames with their names, for display. It looks up the names of all functions of one file at once.
func (s *Space) Names(frames []Frame) []sampler.NativeFrame {
	wanted := make(map[*module][]Frame)
	for _, f := range frames {
		if s.fetched(f.module) {
			clear(f.module.names)
		}
		if _, known := f.module.names[f.key()]; !known && f.module.Module != nil {
			wanted[f.module] = append(wanted[f.module], f)
		}
	}
	for m, list := range wanted {
		at := make([]attach.Address, len(list))
		for i, f := range list {
			at[i] = attach.Address(f.inside)
		}
		if len(m.names) >= maxNames {
			clear(m.names)
		}
		symbols := m.FunctionsAt(at)
		if s.fetch(m, symbols) {
			symbols = m.FunctionsAt(at)
		}
		for i, symbol := range symbols {
			// A symbol that begins before the function belongs to another function. FunctionsAt returns such a symbol
			// only if its size is missing or wrong. So do not use it.
			if name := symbol.Name; list[i].function == 0 || uint64(symbol.Addr-m.Bias) >= list[i].function {
				m.names[list[i].key()] = readable(name)
			} else {
				m.names[list[i].key()] = ""
			}
		}
	}
	out := make([]sampler.NativeFrame, 0, len(frames))
	for _, f := range frames {
		n := sampler.NativeFrame{Library: f.module.short, Name: f.module.names[f.key()]}
		if f.module.Module != nil {
			n.Path, n.BuildID, n.Offset = f.module.Path, f.module.BuildID, f.PC-uint64(f.module.Bias)
			n.Function = f.function
		}
		out = append(out, n)
	}
	return out
}

// fetch requests a module's debug file if some functions of the module have no names. It returns true if the debug file
// is already there.
func (s *Space) fetch(m *module, symbols []attach.Symbol) bool {
	nameless := func(symbol attach.Symbol) bool { return symbol.Name == "" }
	if s.Debug == nil || m.asked || !slices.ContainsFunc(symbols, nameless) || !mapped.LacksSymbols(m.Module) {
		return false
	}
	m.asked, m.awaits = true, true
	s.Debug.Want(m.BuildID, m.short)
	return s.fetched(m)
}

// fetched reports whether a module's requested debug file has arrived. If so, the module uses it from now on.
func (s *Space) fetched(m *module) bool {
	if !m.awaits {
		return false
	}
	var f *safefile.File
	f, m.awaits = s.Debug.File(m.BuildID)
	return f != nil && mapped.UseDebugFile(m.Module, f) == nil
}

// key returns the key of a frame's function in module.names.
func (f *Frame) key() uint64 {
	if f.function != 0 || f.module.Module == nil {
		return f.function
	}
	return f.inside - uint64(f.module.Bias)
}
