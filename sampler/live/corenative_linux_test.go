package live

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live/internal/cstacks"
	"github.com/ddtop/ddtop/sampler/native"
)

// euStackOfCore returns what elfutils' eu-stack reads in a core: the addresses of each thread's frames, innermost
// first. eu-stack opens the mapped files by their names in the core. If the kernel wrote the core, these names are
// paths in the root directory of the process. So eu-stack runs in this root, from a copy in the program's folder. If
// gcore wrote the core, the names are paths in the root directory of this test.
func euStackOfCore(t *testing.T, p *rubytest.Process, core string) map[int32][]uint64 {
	t.Helper()
	program := rubytest.Program(t, "eu-stack", "elfutils")
	inside, ours := strings.CutPrefix(core, p.Ruby.Root)
	args := []string{"-n", "0", "-q", "--core", inside, "-e", p.Ruby.Bin}
	if !ours {
		args[len(args)-1] = filepath.Join(p.Ruby.Root, p.Ruby.Bin)
	}
	cmd := exec.Command(program, args...)
	if ours && p.Ruby.Root != "" {
		libraries, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		copied := ""
		for _, file := range append(regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1), program) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(p.HostDir, filepath.Base(file)), content, 0o700); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(filepath.Base(file), "ld-linux") {
				copied = filepath.Join(p.Dir, filepath.Base(file))
			}
		}
		cmd = exec.Command(copied, append([]string{"--library-path", p.Dir, filepath.Join(p.Dir, "eu-stack")}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: p.Ruby.Root}
		cmd.Dir = "/"
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("eu-stack: %v: %s", err, &stderr)
	}
	out := make(map[int32][]uint64)
	var tid int32
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var n int
		var pc uint64
		if _, err := fmt.Sscanf(lines.Text(), "TID %d:", &tid); err == nil {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "#%d 0x%x", &n, &pc); err == nil {
			out[tid] = append(out[tid], pc)
		}
	}
	return out
}

// stacksOfCore reads the native stacks in a core. It fails the test if this takes longer than onceLimit.
func stacksOfCore(t *testing.T, c *Core) NativeStacks {
	t.Helper()
	sample, err := c.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	stacks, err := c.NativeStacks(t.Context(), sample, nil)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > onceLimit {
		t.Errorf("the stacks took %v", took)
	}
	return stacks
}

// inCall reports whether a thread was in a system call when the core was written. During a call, the register orig_rax
// is not negative (arch/x86/entry).
func inCall(c *Core, tid int32) bool {
	const origAX = 15
	words, ok := c.core.UserRegisters(tid)
	return ok && int64(words[origAX]) >= 0
}

// checkNativeStates checks that each waiting thread has its C functions below its Ruby frames, and that no such stack
// is refused. It leaves out threads that ran, because they may have been about to call or to return.
func checkNativeStates(t *testing.T, c *Core, said rubytest.States) {
	t.Helper()
	sample, err := c.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stacks := stacksOfCore(t, c)
	for i := range sample.Threads {
		thread := &sample.Threads[i]
		info, _ := c.Dictionary().Thread(thread.ID)
		if _, ok := said.Thread(info.Name); !ok || thread.TID == 0 || !inCall(c, thread.TID) {
			continue
		}
		if stack, ok := stacks.Ruby[thread.ID]; !ok || stack.Missing != "" {
			t.Errorf("%s: %v, %s", info.Name, ok, stack.Missing)
		} else {
			checkWait(t, info, stack)
		}
	}
}

// compareNative compares the native stacks of all threads in a core with the stacks from eu-stack. It compares all
// frames, down to the start of the thread.
func compareNative(t *testing.T, c *Core, truth map[int32][]uint64) {
	t.Helper()
	space, err := native.NewSpace(c.core)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	frames := 0
	for _, tid := range c.core.TIDs() {
		regs, _, ok, err := cstacks.Dumped{Core: c.core}.Registers(tid)
		if err != nil || !ok {
			t.Fatalf("thread %d has no registers: %v", tid, err)
		}
		stack := space.Unwind(regs)
		var got []uint64
		for _, f := range stack.Frames {
			got = append(got, f.PC)
		}
		const most = 1024
		if len(got) == most && len(truth[tid]) > most {
			truth[tid] = truth[tid][:most]
		}
		if !slices.Equal(got, truth[tid]) {
			t.Errorf("thread %d, stopped by %v:\n%#x\neu-stack has\n%#x", tid, stack.Stopped, got, truth[tid])
		}
		if len(got) == 1 && stack.Stopped == nil {
			t.Errorf("thread %d has one frame, and no reason why", tid)
		}
		frames += len(got)
	}
	if len(truth) < 20 || len(truth) != len(c.core.TIDs()) {
		t.Errorf("%d threads, and eu-stack has %d", len(c.core.TIDs()), len(truth))
	}
	t.Logf("%d threads, %d frames", len(truth), frames)
}

// TestCoreOfCrash: the stack of a crashed thread must contain three parts: the functions with which Ruby reports the
// crash, the signal, and the C function that crashed. To write its report, Ruby maps libruby a second time, which must
// not confuse ddtop.
func TestCoreOfCrash(t *testing.T) {
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, "STDOUT.puts :ready; STDOUT.flush; STDIN.gets; Process.kill(:SEGV, $$)", rubytest.Options{})
		p.Expect(t, "ready")
		c := openCore(t, kernelCoreBy(t, p, func() { p.Send(t, "now") }), r.Root)
		sample, err := c.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stack := stacksOfCore(t, c).Ruby[sample.Threads[0].ID]
		var names []string
		for _, f := range stack.Frames {
			names = append(names, f.Name)
		}
		last := -1
		for _, want := range []string{"raise", "kill"} {
			i := slices.Index(names, want)
			if i <= last || stack.Missing != "" {
				t.Fatalf("%s in %q, %s", want, names, stack.Missing)
			}
			last = i
		}
	})
}

// TestCoreWithOtherRegisters replaces the registers in a core by wrong values: first all but the program counter by
// random addresses, and then all by random numbers. ddtop must not show a function to which only a wrong register could
// lead.
func TestCoreWithOtherRegisters(t *testing.T) {
	r := rubytest.One(t)
	p, _ := r.StartStates(t, rubytest.Options{})
	path := kernelCore(t, p)
	c := openCore(t, path, r.Root)
	maps, err := c.core.Maps()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	head := make([]byte, 1<<20) // the kernel writes the notes first
	if _, err := file.ReadAt(head, 0); err != nil {
		t.Fatal(err)
	}
	const registersAt, ip, seed = 112, 16, 1
	note := []byte("\x05\x00\x00\x00\x50\x01\x00\x00\x01\x00\x00\x00CORE\x00\x00\x00\x00")
	random := rand.New(rand.NewPCG(seed, seed))
	number := func(int, uint64) uint64 { return random.Uint64() }
	address := func(i int, was uint64) uint64 {
		where := maps[random.IntN(len(maps))]
		if i == ip {
			return was
		}
		return (uint64(where.Start) + random.Uint64N(uint64(where.End-where.Start))) &^ 7
	}
	for _, test := range []struct {
		name   string
		change func(i int, was uint64) uint64
		most   int // limits the frames of a stack that ddtop shows as complete
	}{{"addresses", address, 1}, {"numbers", number, 0}} {
		notes := 0
		for at := 0; ; notes++ {
			i := bytes.Index(head[at:], note)
			if i < 0 {
				break
			}
			at += i + len(note)
			for i := range attach.NumUserRegisters {
				word := head[at+registersAt+i*8:]
				binary.LittleEndian.PutUint64(word, test.change(i, binary.LittleEndian.Uint64(word)))
			}
		}
		if _, err := file.WriteAt(head, 0); err != nil {
			t.Fatal(err)
		}
		c := openCore(t, path, r.Root)
		stacks := stacksOfCore(t, c).Ruby
		if tids := c.core.TIDs(); notes != len(tids) || len(stacks) < 30 {
			t.Fatalf("%d notes of registers and %d stacks for %d threads", notes, len(stacks), len(tids))
		}
		for id, stack := range stacks {
			// The thread from Process.detach is an exception: it has no Ruby frames with which its stack could be
			// compared.
			if stack.Missing == "" && len(stack.Frames) > test.most {
				t.Errorf("%s: thread %d has %+v", test.name, id, stack.Frames)
			}
		}
	}
}
