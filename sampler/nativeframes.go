package sampler

import (
	"slices"
	"strconv"
	"strings"
)

const (
	// maxNativeRun limits how many consecutive C functions without a name one Frame stands for.
	maxNativeRun = 32
	// MissingNative is the label of a frame for C functions that could not be read. It is used if functions further
	// inward, which these C functions called, could be read.
	MissingNative = "C functions that could not be read"
	// kernelPart is the Library of a special frame that is not a C function. The frame's label says what the kernel
	// does for the innermost C function.
	kernelPart = "kernel"
)

// NativeCode says which C functions a Frame of a native stack stands for. It is empty for frames of Ruby stacks.
type NativeCode struct {
	// Library and BuildID are the same as in NativeFrame. The path of the library's file is in Frame.Path.
	Library, BuildID string
	// Places lists the Offset and Function of each C function in hexadecimal, innermost first: "24a1c0-24a100
	// 2c00d4-2c0000". It has more than one C function only if the functions have no names.
	Places string
}

// IsNative reports whether the frame stands for C functions on a native stack.
func (f *Frame) IsNative() bool { return f.Native != NativeCode{} }

// NativeFrames returns the C functions that a frame stands for, innermost first. For a frame of a Ruby stack it returns
// nil.
func (f *Frame) NativeFrames() (out []NativeFrame) {
	for place := range strings.FieldsSeq(f.Native.Places) {
		offset, function, _ := strings.Cut(place, "-")
		n := NativeFrame{Library: f.Native.Library, Path: f.Path, BuildID: f.Native.BuildID}
		n.Offset, _ = strconv.ParseUint(offset, 16, 64) // zero in a damaged recording
		n.Function, _ = strconv.ParseUint(function, 16, 64)
		if out = append(out, n); len(out) == maxNativeRun {
			break
		}
	}
	if len(out) == 1 && f.Name != nativeRunLabel(f.Native.Library, 1) {
		out[0].Name = f.Name
	}
	return out
}

// nativeRunLabel returns the label of a frame that stands for n C functions without a name.
func nativeRunLabel(library string, n int) string {
	if n == 1 {
		return library + " (1 function)"
	}
	return library + " (" + strconv.Itoa(n) + " functions)"
}

// framesOf returns a native stack as Frames for a Dictionary, innermost first.
func (s *NativeStack) framesOf() (out []Frame) {
	if s.Kernel != "" {
		out = append(out, Frame{Label: s.Kernel, Name: s.Kernel, C: true, Origin: OriginCore,
			Native: NativeCode{Library: kernelPart}})
	}
	for i := 0; i < len(s.Frames); {
		f := &s.Frames[i]
		var places []string
		for i < len(s.Frames) && len(places) < maxNativeRun {
			g := &s.Frames[i]
			if len(places) > 0 && (f.Name != "" || g.Name != "" || g.Library != f.Library || g.Path != f.Path ||
				g.BuildID != f.BuildID) {
				break
			}
			places = append(places, strconv.FormatUint(g.Offset, 16)+"-"+strconv.FormatUint(g.Function, 16))
			i++
		}
		label := f.Name
		if label == "" {
			label = nativeRunLabel(f.Library, len(places))
		}
		out = append(out, Frame{Label: label, Name: label, Path: f.Path, C: true, Origin: OriginCore,
			Native: NativeCode{f.Library, f.BuildID, strings.Join(places, " ")}})
	}
	if len(s.Frames) > 0 && s.Missing != "" {
		out = append(out, Frame{Label: MissingNative, Name: MissingNative, C: true, Origin: OriginCore,
			Native: NativeCode{Library: "C"}})
	}
	return out
}

// InternNative adds frames to a Ruby stack and returns the ID of the result. The added frames are the C functions that
// the innermost Ruby frame called, and what the kernel does for these functions. The ID is zero if there is nothing to
// add.
func (d *Dictionary) InternNative(ruby StackID, native *NativeStack) StackID {
	frames := native.framesOf()
	if len(frames) == 0 {
		return 0
	}
	id := ruby
	for _, f := range slices.Backward(frames) {
		id = d.InternStack(id, d.InternFrame(f))
	}
	return id
}

// NativeStack returns the C functions of the stack t.Native. If the stack has no C functions, the result has no Frames.
func (d *Dictionary) NativeStack(t *Thread) (out NativeStack) {
	for id := t.Native; id != 0 && id != t.Stack; {
		caller, frame := d.Stack(id)
		f := d.Frame(frame)
		if !f.IsNative() || len(out.Frames) > maxNativeFrames {
			break
		}
		switch {
		case f.Native.Places != "":
		case f.Native.Library == kernelPart:
			out.Kernel = f.Label
		default:
			out.Missing = f.Label
		}
		out.Frames, id = append(out.Frames, f.NativeFrames()...), caller
	}
	return out
}

// maxNativeFrames bounds how many C functions one native stack has. sampler/native reads at most 1,024.
const maxNativeFrames = 1024
