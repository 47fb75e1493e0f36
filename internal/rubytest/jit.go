package rubytest

import (
	"testing"
)

// asksJIT is a Ruby program that prints "yes" if its Ruby was built with the given JIT. Ruby 3.1 needs a special case:
// it has YJIT, but its configuration does not mention it.
const asksJIT = `require "rbconfig"
name = ARGV[0].upcase
said = RbConfig::CONFIG["#{name}_SUPPORT"]
puts (said ? said != "no" : RubyVM.const_defined?(name)) ? "yes" : "no"
$stdout.flush`

// HasJIT reports whether the interpreter was built with a just-in-time compiler. name is "yjit" or "zjit". If a Ruby
// lacks the compiler, it ignores the option --yjit with a warning, and does not start with --zjit.
func (r Ruby) HasJIT(t testing.TB, name string) bool {
	t.Helper()
	p := r.Start(t, asksJIT, Options{Args: []string{name}})
	defer p.Stop(t)
	return p.Line(t) == "yes"
}

// Variant is a way to start Ruby, such as with a JIT. In each variant, some of the data that ddtop reads is in another
// place in memory.
type Variant struct {
	Name     string
	RubyArgs []string
	Env      []string
}

// Apply returns the options o with the options of the variant added.
func (v Variant) Apply(o Options) Options {
	o.RubyArgs = append(append([]string{}, v.RubyArgs...), o.RubyArgs...)
	o.Env = append(append([]string{}, v.Env...), o.Env...)
	return o
}

// Variants returns the ways in which the interpreter can run a program. The first is without options. For each JIT of
// the interpreter there is a variant that compiles methods from their first or second call on. From Ruby 3.3 on there
// is a variant in which Ruby's threads share native threads (M:N).
func (r Ruby) Variants(t testing.TB) []Variant {
	t.Helper()
	out := []Variant{{Name: "plain"}}
	if r.AtLeast(3, 1) && r.HasJIT(t, "yjit") {
		out = append(out, Variant{Name: "yjit", RubyArgs: []string{"--yjit", "--yjit-call-threshold=1"}})
	}
	if r.AtLeast(4, 0) && r.HasJIT(t, "zjit") {
		out = append(out, Variant{Name: "zjit", RubyArgs: []string{"--zjit", "--zjit-call-threshold=2"}})
	}
	if r.AtLeast(3, 3) {
		out = append(out, Variant{Name: "mn", Env: []string{"RUBY_MN_THREADS=1"}})
	}
	return out
}
