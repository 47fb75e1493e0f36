package attach

import (
	"bytes"
	"encoding/binary"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// sparseCore is a test's core file of more than 400 MB. Its last note claims 400 MB, and ddtop does not need this note.
// Only the file's start (head) is kept in memory. All bytes after it are read as zeros.
type sparseCore struct {
	head []byte
	size int64
}

func (s sparseCore) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(s.head)) {
		copy(b, s.head[at:])
	}
	if at+int64(len(b)) > s.size {
		return int(max(s.size-at, 0)), io.EOF
	}
	return len(b), nil
}

// TestCoreOfManyRegisters: ddtop allocates no memory for a note that it does not use, whatever size the note's header
// claims.
func TestCoreOfManyRegisters(t *testing.T) {
	const registers = 400 << 20
	core := makeCore(nil, nil, 1, 77)
	notes := binary.LittleEndian.Uint64(core[64+32:])
	// fat is the header of a large note that ddtop skips. The kernel writes such notes, with the owner LINUX.
	fat := binary.LittleEndian.AppendUint32(nil, 6)
	fat = binary.LittleEndian.AppendUint32(fat, registers)
	fat = append(binary.LittleEndian.AppendUint32(fat, 0x202), "LINUX\x00\x00\x00"...)
	all := append(bytes.Clone(core), fat...)
	binary.LittleEndian.PutUint64(all[64+32:], notes+uint64(len(fat))+registers)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, err := newCore("core", sparseCore{all, int64(len(all)) + registers}, int64(len(all))+registers)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if c.PID() != 77 || len(c.TIDs()) != 1 {
		t.Errorf("PID %d, threads %v", c.PID(), c.TIDs())
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d MB for a core whose notes are some 1,000 bytes, and 400 MB that nobody needs", got>>20)
	}
}

// TestLongCommandLine: if a command line is a megabyte long, ddtop reads the first 64 KB and marks them as cut.
func TestLongCommandLine(t *testing.T) {
	args := []string{"-c", "echo up; read x"}
	for range 10 {
		args = append(args, strings.Repeat("é", 50_000))
	}
	c := startCommand(t, exec.Command("sh", args...))
	if line, err := c.lines.ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	p, err := openProcess(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	got, err := p.CommandLine()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, a := range got {
		size += len(a) + 1
	}
	if last := got[len(got)-1]; size > maxArguments+8 || size < maxArguments-8 || !strings.HasSuffix(last, "é…") || got[0] != "sh" {
		t.Errorf("%d arguments of %d bytes, the last ends with %q", len(got), size, last[len(last)-6:])
	}
}
