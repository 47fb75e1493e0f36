package ruby

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// objectsProgram has a thread for each object, which waits in a method of this object. So the object is the self of the
// thread's innermost Ruby frame or C function. The program prints the class of each object.
const objectsProgram = `
require "json"
$stdout.sync = true
module Outer
  class Inner; def park; sleep; end; end
end
class Kid < Outer::Inner; end
single = Outer::Inner.new
def single.own; end
extended = Kid.new
extended.extend(Comparable)
anonymous = Class.new { def park; sleep; end }
named = Class.new { def park; sleep; end }
LaterNamed = named
held = Mutex.new
held.lock
objects = {
  "queue" => [q = Queue.new, -> { q.pop }], "sized" => [s = SizedQueue.new(1), -> { s.pop }],
  "mutex" => [held, -> { held.lock }], "thread" => [th = Thread.new { sleep }, -> { th.join }],
  "inner" => [o = Outer::Inner.new, -> { o.park }], "kid" => [k = Kid.new, -> { k.park }],
  "single" => [single, -> { single.park }], "extended" => [extended, -> { extended.park }],
  "anonymous" => [a = anonymous.new, -> { a.park }], "later" => [l = LaterNamed.new, -> { l.park }],
  "array" => [[1], -> { [1].each { sleep } }], "string" => ["text", -> { "text".each_char { sleep } }],
  "caf\xE9".dup.force_encoding("ISO-8859-1") => [1, -> { 1.times { sleep } }],
  "\u65E5\u672C\u8A9E \u{1F600}" => [nil, -> { sleep }], "x" * 5000 => [nil, -> { sleep }], "" => [nil, -> { sleep }],
}
threads = objects.map { |name, (_, body)| Thread.new { Thread.current.name = name; body.call } }
Thread.pass until (threads + [th]).all? { |t| t.status == "sleep" }
puts JSON.generate(objects.map { |name, (o, _)| [name.dup.force_encoding("BINARY").unpack("H*")[0], o && o.class.name] }.to_h)
STDIN.gets
`

// TestObjects: for each object, ddtop must read the same name of its class or data type as Ruby prints. For Strings, it
// must also read the same text.
func TestObjects(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, objectsProgram, rubytest.Options{})
		classes := make(map[string]*string)
		p.JSON(t, &classes)
		g := openTarget(t, p.PID)
		types := map[string]string{"queue": "queue", "sized": "sized_queue", "mutex": "mutex", "thread": "VM/thread"}
		if r.AtLeast(4, 0) {
			types["queue"], types["sized"] = "Thread::Queue", "Thread::SizedQueue"
		}
		names := make(map[string]bool)
		for _, thread := range g.threads(t) {
			nameAt := uint64(g.word(t, thread+g.off(t, "rb_thread_struct.name")))
			if nameAt == g.vm.Places.Objects.Nil {
				continue
			}
			name, ok := g.dec.Objects.String(nameAt)
			if !ok {
				t.Errorf("the name at %#x can't be read", nameAt)
			}
			names[name] = true
			want, ok := classes[hex(name)]
			if !ok {
				continue
			}
			raw, ok := g.threadStack(t, thread, true)
			if !ok {
				t.Fatalf("thread %q has no stack", name)
			}
			class, typ := selfClass(g, &raw, want), ""
			if want == nil {
				continue
			}
			if class == 0 {
				t.Errorf("thread %q: no frame has a self of class %s", name, *want)
				continue
			}
			if typ = g.dec.Objects.DataTypeName(class); types[name] != "" && typ != types[name] {
				t.Errorf("thread %q: data type %q, want %q", name, typ, types[name])
			} else if types[name] == "" && typ != "" {
				t.Errorf("thread %q: data type %q of a %s", name, typ, *want)
			}
		}
		for _, want := range []string{`caf\xE9`, "日本語 😀", sampler.CutName(strings.Repeat("x", 5000)), "", "queue"} {
			if !names[want] {
				t.Errorf("no thread is called %.20q", want)
			}
		}
		for _, v := range []uint64{0, 1, g.vm.Places.Objects.Nil, 0x24, 0x34, 20, 0x0c, 7, 1 << 40, uint64(g.vm.Addr)} {
			if name, ok := g.dec.Objects.ClassName(v); ok {
				t.Errorf("%#x has class %q", v, name)
			}
			if name := g.dec.Objects.DataTypeName(v); name != "" {
				t.Errorf("%#x has data type %q", v, name)
			}
			if s, ok := g.dec.Objects.String(v); ok {
				t.Errorf("%#x is the String %q", v, s)
			}
		}
	})
}

// selfClass returns the self of the innermost frame whose self has a class with the wanted name. It returns zero if
// there is none. It also checks that objects of anonymous classes have no class name.
func selfClass(g *realTarget, raw *code.Stack, want *string) uint64 {
	for f := raw.Frames; len(f) >= g.dec.FrameSize(); f = f[g.dec.FrameSize():] {
		self := le64(f[frameSelf:])
		if name, ok := g.dec.Objects.ClassName(self); ok && want != nil && name == *want {
			return self
		}
	}
	return 0
}

func hex(s string) string {
	const digits = "0123456789abcdef"
	var out []byte
	for i := range len(s) {
		out = append(out, digits[s[i]>>4], digits[s[i]&15])
	}
	return string(out)
}

// TestRevalidateSeesLaterNames: an anonymous class gets a name after ddtop has read labels of its methods. The labels
// must have this name then.
func TestRevalidateSeesLaterNames(t *testing.T) {
	const program = `
$stdout.sync = true
fresh = Class.new { def park; sleep; end }
thread = Thread.new { Thread.current.name = "it"; fresh.new.park }
Thread.pass until thread.status == "sleep"
puts "anonymous"
STDIN.gets
GivenLater = fresh
GivenLater.name
puts "named"
STDIN.gets
`
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, program, rubytest.Options{})
		p.Expect(t, "anonymous")
		g := openTarget(t, p.PID)
		label := func() string {
			for _, thread := range g.threads(t) {
				if g.name(t, thread) != "it" {
					continue
				}
				raw, _ := g.threadStack(t, thread, true)
				id, _, err := g.dec.Decode(&raw)
				if err != nil {
					t.Fatal(err)
				}
				return g.frames(id)[1].Label
			}
			t.Fatal("no thread")
			return ""
		}
		if got := label(); got != "park" {
			t.Errorf("got %q before the class has a name", got)
		}
		p.Send(t, "name it")
		p.Expect(t, "named")
		if err := g.dec.Revalidate(1, sampler.GC{Valid: true, Count: 1, MajorCount: 1}); err != nil {
			t.Fatal(err)
		}
		if got := label(); got != "GivenLater#park" {
			t.Errorf("got %q after the class has got a name", got)
		}
	})
}
