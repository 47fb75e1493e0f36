package ruby

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// argumentsProgram has threads that wait in C functions. Each function opens a named pipe that has no writer, so it
// waits forever. The name of the pipe, which is also the thread's name, shows how the function was called.
const argumentsProgram = `
dir = "."
CALLS = {
  "one" => ->(p) { IO.read(p) },
  "two" => ->(p) { IO.read(p, 10) },
  "three" => ->(p) { IO.read(p, 10, 3) },
  "send" => ->(p) { IO.send(:read, p) },
  "__send__" => ->(p) { IO.__send__(:read, p, 10) },
  "public_send" => ->(p) { IO.public_send(:read, p) },
  "safe" => ->(p) { IO&.read(p, 10) },
  "block" => ->(p) { [p].each { |q| IO.read(q) } },
  "given" => ->(p) { IO.foreach(p) { } },
  "symbol" => ->(p) { IO.foreach(p, &:to_s) },
  "keyword" => ->(p) { IO.read(p, 10, mode: "r") },
  "splat" => ->(p) { IO.read(*[p, 10]) },
  "some" => ->(p) { IO.read(p, *[10, 3]) },
  "method" => ->(p) { IO.method(:read).call(p) },
  "unbound" => ->(p) { IO.method(:read).unbind.bind(IO).call(p) },
  "to_proc" => ->(p) { [p].each(&IO.method(:read)) },
  "map" => ->(p) { [p].map(&File.method(:read)) },
  "deep" => ->(p) { a, b, c = 1, "2", [3]; IO.read([b, p].last, a + 9) + c.to_s },
}
threads = CALLS.map do |name, call|
  path = File.join(dir, name)
  File.mkfifo(path)
  2.times { |i| call.(File.join(dir, "none")) rescue Errno::ENOENT }
  Thread.new { Thread.current.name = "call #{name}"; call.(path) }
end
sleep 0.01 until threads.all? { |t| t.status == "sleep" }
puts "ready"; $stdout.flush; $stdin.gets`

// TestArguments: if Ruby code has called a C function, ddtop must show the arguments of the call. If C code has called
// it, ddtop must show no arguments. From 3.3 on, the elements of an Array that was passed with a splat (*array) may be
// missing.
func TestArguments(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		for _, v := range r.Variants(t) {
			t.Run(v.Name, func(t *testing.T) {
				p := r.Start(t, argumentsProgram, v.Apply(rubytest.Options{}))
				p.Expect(t, "ready")
				rd := openReaderWith(t, p.PID, Options{})
				var s sampler.Sample
				wrong, deadline := []string{"not read yet"}, time.Now().Add(rubytest.Timeout)
				for len(wrong) > 0 && time.Now().Before(deadline) {
					if err := rd.Read(sampler.StackTick, &s); err != nil && !notNow(err) {
						t.Fatal(err)
					}
					wrong = wrongArguments(rd)
				}
				for _, w := range wrong {
					t.Error(w)
				}
			})
		}
	})
}

// wrongArguments compares the arguments that ddtop shows for each thread's innermost function with the right ones. It
// returns the differences.
func wrongArguments(rd *Reader) (wrong []string) {
	calls := 0
	for _, th := range rd.list.order {
		info, _ := rd.dict.Thread(th.id)
		call, ok := strings.CutPrefix(info.Name, "call ")
		if !ok {
			continue
		}
		calls++
		want := []string{"./" + call}
		switch call {
		case "two", "__send__", "safe", "splat", "deep":
			want = append(want, "10")
		case "three", "some":
			want = append(want, "10", "3")
		case "keyword":
			want = append(want, "10", "…")
		}
		got, told := argumentsOf(rd, th)
		switch call {
		case "public_send", "method", "unbound", "to_proc", "map": // called by a C function, so no arguments are known
			if told {
				wrong = append(wrong, fmt.Sprintf("%s: the arguments are said to be %q", call, got))
			}
		case "splat", "some":
			// From 3.3 on, Ruby passes an Array with a splat (*array) as one argument. So its elements may be missing
			// in the arguments that ddtop shows.
			if !slices.Equal(got, want) && (!told || got[len(got)-1] != "…") {
				wrong = append(wrong, fmt.Sprintf("%s: the arguments are said to be %q (%v), and are %q", call, got, told, want))
			}
		default:
			if !slices.Equal(got, want) {
				wrong = append(wrong, fmt.Sprintf("%s: the arguments are said to be %q (%v), and are %q", call, got, told, want))
			}
		}
	}
	if calls != 18 {
		wrong = append(wrong, fmt.Sprintf("%d threads", calls))
	}
	return wrong
}

// argumentsOf returns the arguments of a thread's innermost function as ddtop shows them. ok is false unless it is a C
// function that Ruby code has called. An argument that is neither String nor Integer is "…".
func argumentsOf(rd *Reader, th *thread) (list []string, ok bool) {
	size, kept := rd.o.Code.FrameSize, th.stack.kept
	if len(kept) < 2*size {
		return nil, false
	}
	at, n, ok := rd.dec.Arguments(kept[:size], kept[size:2*size])
	if !ok || le64(kept[frameSelf:]) != argumentAt(rd, at-8) {
		return nil, false
	}
	for i := range n {
		v := argumentAt(rd, at+attach.Address(8*i))
		text := "…"
		if s, ok := rd.dec.Objects.String(v); ok {
			text = s
		} else if v&1 == 1 {
			text = strconv.FormatInt(int64(v)>>1, 10)
		}
		list = append(list, text)
	}
	return list, true
}

func argumentAt(rd *Reader, at attach.Address) (v uint64) {
	err := rd.dec.Objects.Read(func() (err error) {
		v, err = rd.dec.Objects.Word(at)
		return err
	})
	if err != nil {
		return 0
	}
	return v
}
