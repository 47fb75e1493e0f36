package code

import (
	"cmp"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// Method returns a label without its prefix: Foo#bar for "block (2 levels) in Foo#bar".
func Method(label string) string {
	if strings.HasPrefix(label, "block ") || strings.HasPrefix(label, "rescue in ") || strings.HasPrefix(label, "ensure in ") {
		if i := strings.LastIndex(label, " in "); i >= 0 {
			return label[i+len(" in "):]
		}
	}
	return label
}

const (
	// MaxNear limits how many frames are searched for a method written in Ruby. The search begins with the innermost
	// frame.
	MaxNear = 32
	// MaxFrames limits how many frames all other searches of a stack examine. They begin with the innermost frame.
	MaxFrames = 200
)

// Frames iterates over a stack's frames, beginning with the innermost. The parameter most limits their number. With
// each frame it yields the part of the stack from the outermost frame to this frame.
func Frames(dict *sampler.Dictionary, stack sampler.StackID, most int) iter.Seq2[sampler.StackID, sampler.Frame] {
	return func(yield func(sampler.StackID, sampler.Frame) bool) {
		for depth := 0; dict != nil && stack != 0 && depth < most; depth++ {
			caller, id := dict.Stack(stack)
			if !yield(stack, dict.Frame(id)) {
				return
			}
			stack = caller
		}
	}
}

// at returns a frame's place in a file: "order.rb:39".
func at(file string, f *sampler.Frame) string { return file + ":" + strconv.Itoa(int(f.Line)) }

// Where names the code of a stack for a sentence: "Reports#build → JSON.generate". It names the innermost Ruby method
// and the C function that it called. If the Ruby method belongs to a library, the program's own method that called the
// library is named instead: "ShopController#show → PG::Connection#exec". It is empty for an unknown stack.
func Where(dict *sampler.Dictionary, stack sampler.StackID) string {
	var c, ruby string
	depth := 0
	for _, f := range Frames(dict, stack, MaxFrames) {
		label := Method(f.Label)
		switch {
		case f.C:
			if c == "" && ruby == "" {
				c = label
			}
		case IsOwn(&f, label):
			if strings.HasPrefix(label, "<") {
				label = f.Label // a block in a class body, such as a route of Sinatra
			}
			return Join(label, ruby, c)
		case ruby == "" && depth < MaxNear:
			ruby = label
		}
		depth++
	}
	return Join("", ruby, c)
}

// IsOwn reports whether a frame is the program's own code: a method, or a block in the body of a class (a route of
// Sinatra, for example). label is Method(f.Label). IsOwn returns false for the top level of a file, because a server's
// start script bin/puma also runs there. If a recording does not have the origins of code, no frame is own code.
func IsOwn(f *sampler.Frame, label string) bool {
	body := strings.HasPrefix(label, "<")
	if body && f.Label != label {
		body = !strings.HasPrefix(label, "<class:") && !strings.HasPrefix(label, "<module:")
	}
	return f.Origin != sampler.OriginUnknown && f.Own() && !body
}

// OwnStack returns the part of a stack from the outermost frame to the program's innermost own method. If there is no
// own method, it returns the whole stack.
func OwnStack(dict *sampler.Dictionary, stack sampler.StackID) sampler.StackID {
	for own, f := range Frames(dict, stack, MaxFrames) {
		if !f.C && IsOwn(&f, Method(f.Label)) {
			return own
		}
	}
	return stack
}

// HasOwn reports whether a stack has a method of the program itself. If ddtop does not know which code is the
// program's, the result is true.
func HasOwn(dict *sampler.Dictionary, stack sampler.StackID) bool {
	for _, f := range Frames(dict, stack, MaxFrames) {
		if f.Origin == sampler.OriginUnknown || IsOwn(&f, Method(f.Label)) {
			return true
		}
	}
	return false
}

// Join joins up to two names with an arrow. own is the program's own method, library is the library's method that it
// called, and c is the C function. Each can be empty. If all three are given, Join leaves out library. But if c is a
// general function such as IO#read (primitives), it leaves out c instead.
func Join(own, library, c string) string {
	outer, inner := own, c
	switch {
	case own == "":
		outer = library
	case library != "" && (c == "" || isPrimitive(c)):
		inner = library
	}
	switch {
	case inner == "":
		return outer
	case outer == "":
		return inner
	}
	return outer + " → " + inner
}

// primitives are the beginnings of names of general C functions, such as IO#read. All kinds of libraries wait in these
// functions, so such a name does not show what a thread waits for.
var primitives = []string{
	"IO#", "IO.", "Kernel#", "Thread", "Monitor#", "Process.", "BasicSocket#", "Socket", "TCPSocket", "UNIXSocket",
	"UDPSocket", "OpenSSL::SSL::SSLSocket#",
}

func isPrimitive(c string) bool {
	return slices.ContainsFunc(primitives, func(p string) bool { return strings.HasPrefix(c, p) })
}

// Line names the place of the innermost frame written in Ruby: "app/models/order.rb:39". It is empty if there is no
// such frame.
func Line(dict *sampler.Dictionary, stack sampler.StackID) string {
	for _, f := range Frames(dict, stack, MaxNear) {
		if !f.C && f.Path != "" {
			return at(f.Path, &f)
		}
	}
	return ""
}

// OwnLine names the place of the innermost frame with the program's own code: "order.rb:39". If there is no such frame,
// it names the place of the innermost frame written in Ruby.
func OwnLine(dict *sampler.Dictionary, stack sampler.StackID) string {
	ruby := ""
	for _, f := range Frames(dict, stack, MaxFrames) {
		switch {
		case f.C || f.Path == "":
		case f.Own():
			return at(path.Base(f.Path), &f)
		case ruby == "":
			ruby = at(path.Base(f.Path), &f)
		}
	}
	return ruby
}

// RootLine returns the place of the outermost frame written in Ruby, with the line that it executes: " (order.rb:39)".
func RootLine(dict *sampler.Dictionary, stack sampler.StackID) string {
	line := ""
	for _, f := range Frames(dict, stack, MaxFrames) {
		if !f.C && f.Path != "" {
			line = " (" + at(path.Base(f.Path), &f) + ")"
		}
	}
	return line
}

// Root names the outermost method of a stack: the method in which its thread was started.
func Root(dict *sampler.Dictionary, stack sampler.StackID) (label string) {
	for _, f := range Frames(dict, stack, MaxFrames) {
		label = f.Label
	}
	return Method(label)
}

// RubyMethod names the innermost method written in Ruby, with the C function called in it. It is empty if dict is nil.
func RubyMethod(dict *sampler.Dictionary, stack sampler.StackID) string {
	inner := ""
	for _, f := range Frames(dict, stack, MaxNear) {
		if !f.C {
			return Join(Method(f.Label), "", inner)
		}
		inner = cmp.Or(inner, Method(f.Label))
	}
	return inner
}

// Innermost returns the method of a stack's innermost frame. It is empty for an unknown stack.
func Innermost(dict *sampler.Dictionary, stack sampler.StackID) string {
	if dict == nil || stack == 0 {
		return ""
	}
	_, id := dict.Stack(stack)
	return Method(dict.Frame(id).Label)
}

// Calls returns the innermost frame of code that is written in Ruby, but is not part of Ruby itself (<internal:…>). It
// is the zero Frame if there is none.
func Calls(dict *sampler.Dictionary, stack sampler.StackID) sampler.Frame {
	for _, f := range Frames(dict, stack, MaxFrames) {
		if !f.C && !strings.HasPrefix(f.Path, "<internal:") {
			return f
		}
	}
	return sampler.Frame{}
}

// Owner returns the class or module in a label: "Shop::Log" for "block in Shop::Log#write". It returns "" for a method
// of Object, which every object has, and for a label without a class.
func Owner(label string) string {
	owner := Method(label)
	if i := strings.LastIndexAny(owner, "#."); i > 0 && owner[:i] != "Object" {
		return owner[:i]
	}
	return ""
}
