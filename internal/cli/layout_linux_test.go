package cli_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/elftest"
)

// slowDebugInfo returns a file whose debug information takes long to read. It has 1,000 units of 60 entries, each with
// 200 names of 4 kB.
func slowDebugInfo(t *testing.T) []byte {
	const attributes, entries, units = 200, 60, 1000
	const compileUnit, baseType, attrName, formStrp = 0x11, 0x24, 0x03, 0x0e // DWARF 4, section 7.5
	abbrevs := []byte{1, compileUnit, 1, 0, 0, 2, baseType, 0}
	abbrevs = append(append(abbrevs, bytes.Repeat([]byte{attrName, formStrp}, attributes)...), 0, 0, 0)
	entry := append([]byte{2}, make([]byte, 4*attributes)...) // all names are the string at offset 0
	body := append(append([]byte{1}, bytes.Repeat(entry, entries)...), 0)
	unit := binary.LittleEndian.AppendUint32(nil, uint32(7+len(body)))
	unit = append(append(unit, 4, 0, 0, 0, 0, 0, 8), body...)
	return elftest.Make(t, []elftest.Section{
		{Name: ".debug_info", Type: elf.SHT_PROGBITS, Content: bytes.Repeat(unit, units)},
		{Name: ".debug_abbrev", Type: elf.SHT_PROGBITS, Content: abbrevs},
		{Name: ".debug_str", Type: elf.SHT_PROGBITS, Content: append(bytes.Repeat([]byte("x"), 4095), 0)}}, nil)
}

// TestLayoutEnds: if debug information takes long to read, ctrl-c ends the reading. Until then, the reading uses little
// memory.
func TestLayoutEnds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "libruby.so.9.9")
	if err := os.WriteFile(file, slowDebugInfo(t), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, out, _ := prepare(t.Context(), "layout", file, "--ruby", "9.9.9")
	var errs notes
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	peakOf := followPeak(t, cmd.Process.Pid)
	until(t, func() bool { return strings.Contains(errs.String(), "reading the debug information of "+file) }, "the reading goes on")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r := finish(t, cmd, out, &errs.text)
	if r.code != 1 || r.out != "" || strings.Contains(r.err, "it lacks") {
		t.Errorf("exit code %d, it said %q and printed %.100q", r.code, r.err, r.out)
	}
	peak := peakOf()
	if t.Logf("%d MB; it said %q", peak>>20, r.err); peak > mostMemory {
		t.Errorf("it took %d MB", peak>>20)
	}
}
