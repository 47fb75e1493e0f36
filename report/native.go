package report

import "github.com/ddtop/ddtop/sampler"

// DumpNative is the native stack of a thread that did not run.
type DumpNative struct {
	// Frames are innermost first. For a thread of Ruby's they end where Ruby's own functions begin.
	Frames []DumpNativeFrame `json:"frames"`
	// Missing says why frames are missing. It is null if none are.
	Missing *string `json:"missing"`
}

// DumpNativeFrame is a C function.
type DumpNativeFrame struct {
	// Name is null if no symbol table names the function. Library is the short name of the file at Path.
	Name    *string `json:"name"`
	Library string  `json:"library"`
	Path    string  `json:"path"`
	// BuildID is the linker's id of the file, or null. Offset is where in the file the function goes on, and Function
	// where it begins, which is null if unknown. Another tool can find the name by these.
	BuildID  *string `json:"build_id"`
	Offset   uint64  `json:"offset"`
	Function *uint64 `json:"function"`
}

// DumpNativeThread is a native thread that Ruby does not know.
type DumpNativeThread struct {
	StatNative
	// Native is its whole native stack. It is null if the thread ran.
	Native *DumpNative `json:"native"`
}

// NewDumpNative returns a native stack for a dump.
func NewDumpNative(s sampler.NativeStack) *DumpNative {
	out := &DumpNative{Frames: make([]DumpNativeFrame, 0, len(s.Frames)), Missing: TextOrNil(s.Missing)}
	for _, f := range s.Frames {
		frame := DumpNativeFrame{Name: TextOrNil(f.Name), Library: f.Library, Path: f.Path,
			BuildID: TextOrNil(f.BuildID), Offset: f.Offset}
		if f.Function != 0 {
			frame.Function = &f.Function
		}
		out.Frames = append(out.Frames, frame)
	}
	return out
}
