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

// Method is a label without a decoration: "block (2 levels) in Foo#bar" is Foo#bar.
func Method(label string) string {
	if strings.HasPrefix(label, "block ") || strings.HasPrefix(label, "rescue in ") || strings.HasPrefix(label, "ensure in ") {
		if i := strings.LastIndex(label, " in "); i >= 0 {
			return label[i+len(" in "):]
		}
	}
	return label
}

const (
	// MaxNear bounds the search outward for a method written in Ruby, in frames.
	MaxNear = 32
	// MaxFrames bounds the frames of a stack that count.
	MaxFrames = 200
)

// Frames iterates over at most most innermost frames of a stack, each with the part of the stack that ends with it.
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

// at is the line of a frame in a file: "order.rb:39".
func at(file string, f *sampler.Frame) string { return file + ":" + strconv.Itoa(int(f.Line)) }

// Where names the code of a stack for a sentence: "Reports#build → JSON.generate", the innermost method written in Ruby
// and the C function it is in. If that method is a library's, the program's own method that called it is named instead
// (ShopController#show → PG::Connection#exec), since a person can change that. It is empty for an unknown stack.
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
				label = f.Label // a block of a class body, such as a route of Sinatra's
			}
			return Join(label, ruby, c)
		case ruby == "" && depth < MaxNear:
			ruby = label
		}
		depth++
	}
	return Join("", ruby, c)
}

// IsOwn reports whether a frame is a method of the program itself, or a block in the body of a class. label is what
// Method makes of its label. The top of a file is not: a server's bin/puma is such a file, too. A recording without
// origins has no own frames.
func IsOwn(f *sampler.Frame, label string) bool {
	body := strings.HasPrefix(label, "<")
	if body && f.Label != label {
		body = !strings.HasPrefix(label, "<class:") && !strings.HasPrefix(label, "<module:")
	}
	return f.Origin != sampler.OriginUnknown && f.Own() && !body
}

// OwnStack returns the part of a stack that ends with the innermost own method, or the whole stack if there is none.
func OwnStack(dict *sampler.Dictionary, stack sampler.StackID) sampler.StackID {
	for own, f := range Frames(dict, stack, MaxFrames) {
		if !f.C && IsOwn(&f, Method(f.Label)) {
			return own
		}
	}
	return stack
}

// HasOwn reports whether an own method is on a stack, or whether origins are not known.
func HasOwn(dict *sampler.Dictionary, stack sampler.StackID) bool {
	for _, f := range Frames(dict, stack, MaxFrames) {
		if f.Origin == sampler.OriginUnknown || IsOwn(&f, Method(f.Label)) {
			return true
		}
	}
	return false
}

// Join joins the names of the program's own method, the library's that it called, and the C function. Each can be
// empty. A sentence has two of them.
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

// primitives are the beginnings of the names of C functions in which every library waits. They do not show the
// purpose of the wait.
var primitives = []string{
	"IO#", "IO.", "Kernel#", "Thread", "Monitor#", "Process.", "BasicSocket#", "Socket", "TCPSocket", "UNIXSocket",
	"UDPSocket", "OpenSSL::SSL::SSLSocket#",
}

func isPrimitive(c string) bool {
	return slices.ContainsFunc(primitives, func(p string) bool { return strings.HasPrefix(c, p) })
}

// Line names the place of the innermost frame written in Ruby: "app/models/order.rb:39". It is empty if there is none.
func Line(dict *sampler.Dictionary, stack sampler.StackID) string {
	for _, f := range Frames(dict, stack, MaxNear) {
		if !f.C && f.Path != "" {
			return at(f.Path, &f)
		}
	}
	return ""
}

// OwnLine names the place of the innermost own frame, "order.rb:39", or of the innermost frame written in Ruby.
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

// RootLine names the place of the outermost frame in its method: " (order.rb:39)".
func RootLine(dict *sampler.Dictionary, stack sampler.StackID) string {
	line := ""
	for _, f := range Frames(dict, stack, MaxFrames) {
		if !f.C && f.Path != "" {
			line = " (" + at(path.Base(f.Path), &f) + ")"
		}
	}
	return line
}

// Root names the method a thread was started in.
func Root(dict *sampler.Dictionary, stack sampler.StackID) (label string) {
	for _, f := range Frames(dict, stack, MaxFrames) {
		label = f.Label
	}
	return Method(label)
}

// RubyMethod names the innermost method written in Ruby, with the C function called in it. It is empty without a dict.
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

// Innermost is the method of a stack's innermost frame. It is empty for an unknown stack.
func Innermost(dict *sampler.Dictionary, stack sampler.StackID) string {
	if dict == nil || stack == 0 {
		return ""
	}
	_, id := dict.Stack(stack)
	return Method(dict.Frame(id).Label)
}

// Calls returns the innermost frame of a stack that is written in Ruby and not part of Ruby itself. It is the zero
// Frame if there is none.
func Calls(dict *sampler.Dictionary, stack sampler.StackID) sampler.Frame {
	for _, f := range Frames(dict, stack, MaxFrames) {
		if !f.C && !strings.HasPrefix(f.Path, "<internal:") {
			return f
		}
	}
	return sampler.Frame{}
}

// Owner returns the class or module in a label: "Shop::Log" for "block in Shop::Log#write". It returns "" for a method
// that every object has.
func Owner(label string) string {
	owner := Method(label)
	if i := strings.LastIndexAny(owner, "#."); i > 0 && owner[:i] != "Object" {
		return owner[:i]
	}
	return ""
}
