package layout

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/elftest"
)

// sparse is an endless file that has zeros after its start.
type sparse struct{ start []byte }

func (s sparse) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(s.start)) {
		n = copy(b, s.start[off:])
	}
	clear(b[n:])
	return len(b), nil
}

// unitsOf returns n units of DWARF 4 with the same entries. The abbreviation table of each unit begins step bytes after
// the previous unit's.
func unitsOf(n, step int, entries []byte) []byte {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, uint32(7+len(entries)))
		b = binary.LittleEndian.AppendUint16(b, 4)
		b = binary.LittleEndian.AppendUint32(b, uint32(i*step))
		b = append(append(b, 8), entries...)
	}
	return b
}

// abbrev returns an abbreviation with attributes: a compile unit (number 1), or a base type with another number.
func abbrev(number, tag byte, children bool, attributes ...byte) []byte {
	b := []byte{number, tag, 0}
	if children {
		b[2] = 1
	}
	return append(append(b, attributes...), 0, 0)
}

const (
	compileUnit, baseType     = 0x11, 0x24 // DW_TAG_compile_unit, DW_TAG_base_type
	attrName                  = 0x03       // DW_AT_name
	formString, formStrp      = 0x08, 0x0e // DW_FORM_string, DW_FORM_strp
	formFlagPresent, formData = 0x19, 0x0f // DW_FORM_flag_present, DW_FORM_udata
)

// debugSections returns a file's sections of DWARF, uncompressed.
func debugSections(info, abbrevs, str []byte) []elftest.Section {
	return []elftest.Section{{Name: ".debug_info", Type: elf.SHT_PROGBITS, Content: info},
		{Name: ".debug_abbrev", Type: elf.SHT_PROGBITS, Content: abbrevs}, {Name: ".debug_str", Type: elf.SHT_PROGBITS, Content: str}}
}

// hostileDWARF returns ELF files. The map's keys name the test cases. Without limits, ddtop would need much more memory
// or time to read a file's debug information than the file's size suggests.
func hostileDWARF(t testing.TB) map[string][]byte {
	small := debugSections(unitsOf(1, 0, []byte{1, 0}), append(abbrev(1, compileUnit, true), 0), []byte{0})
	with := func(more ...elftest.Section) []byte { return elftest.Make(t, append(small, more...), nil) }
	longString := append(bytes.Repeat([]byte{'x'}, 16<<20), 0)
	return map[string][]byte{
		"a large section":      with(elftest.Section{Name: ".debug_line", Type: elf.SHT_PROGBITS, Claim: 900 << 20}),
		"large entries":        elftest.Make(t, []elftest.Section{small[1], {Name: ".debug_info", Type: elf.SHT_PROGBITS, Claim: 900 << 20}}, nil),
		"two of a name":        with(elftest.Section{Name: ".debug_str", Type: elf.SHT_PROGBITS, Claim: 900 << 20}),
		"a .zdebug_ section":   with(elftest.Section{Name: ".zdebug_line", Type: elf.SHT_PROGBITS, Claim: 2 << 30}),
		"relocations":          with(elftest.Section{Name: ".rela.debug_info", Type: elf.SHT_RELA, Info: 1, Link: 1, Claim: 900 << 20}),
		"a compressed section": with(elftest.Section{Name: ".debug_line_str", Type: elf.SHT_PROGBITS, Flags: elf.SHF_COMPRESSED, Content: elftest.Zeros(t, 900)}),
		// 60,000 units have abbreviation tables that overlap: each begins a little later, and all end at the same
		// place.
		"abbreviations that overlap": elftest.Make(t, debugSections(unitsOf(60_000, 5, []byte{1}),
			append(bytes.Repeat(abbrev(1, compileUnit, false), 600_000), 0), []byte{0}), nil),
		// Each entry takes one byte in the file, but claims a million attributes that take no bytes.
		"attributes without bytes": elftest.Make(t, debugSections(unitsOf(1, 0, append([]byte{1}, bytes.Repeat([]byte{2}, 1<<20)...)),
			append(append(abbrev(1, compileUnit, true), abbrev(2, baseType, false, bytes.Repeat([]byte{attrName, formFlagPresent}, 1<<20)...)...), 0), []byte{0}), nil),
		// 131,072 entries of five bytes refer to the same name of 16 MiB. debug/dwarf copies the name for each entry.
		"long names": elftest.Make(t, debugSections(unitsOf(1, 0, append([]byte{1}, bytes.Repeat([]byte{2, 0, 0, 0, 0}, 1<<17)...)),
			append(append(abbrev(1, compileUnit, true), abbrev(2, baseType, false, attrName, formStrp)...), 0), longString), nil),
		// 1,000 units refer to the same name of 1 MiB. debug/dwarf copies the name for each unit.
		"long names of units": elftest.Make(t, debugSections(unitsOf(1000, 0, []byte{1, 0, 0, 0, 0}),
			append(abbrev(1, compileUnit, false, attrName, formStrp), 0), longString[15<<20:]), nil),
		// The unit ends in the middle of a number of 16 MiB. debug/dwarf reads this number again for each of 256
		// attributes.
		"a number without an end": elftest.Make(t, debugSections(unitsOf(1, 0, append([]byte{1}, bytes.Repeat([]byte{0x82}, 16<<20)...)),
			append(abbrev(1, compileUnit, true, bytes.Repeat([]byte{attrName, formData}, 256)...), 0), []byte{0}), nil),
	}
}

// mostDebugMemory limits how much memory ddtop may use to read debug information, in bytes.
const mostDebugMemory = 512 << 20

// TestHostileDWARF: whatever a file's debug information claims, reading it takes little memory and at most 30 s, and
// ends with one of two errors.
func TestHostileDWARF(t *testing.T) {
	const within = 30 * time.Second // without limits, reading takes minutes or gigabytes
	for name, file := range hostileDWARF(t) {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			f, err := elf.NewFile(sparse{file})
			if err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			before, stop := heapPeak()
			began := time.Now()
			info, err := ReadDebugInfo(t.Context(), f)
			if err == nil {
				_, err = Derive(t.Context(), info, DeriveOptions{Release: "9.9.9", Machine: "x86_64"})
			}
			took, peak := time.Since(began), stop()
			t.Logf("%v, %d MB: %v", took, (peak-before)>>20, err)
			if !errors.Is(err, errNoDebugInfo) && !errors.Is(err, ErrIncomplete) {
				t.Errorf("it says %v", err)
			}
			if took > within {
				t.Errorf("it took %v", took)
			}
			if peak-before > mostDebugMemory {
				t.Errorf("it took %d MB", (peak-before)>>20)
			}
		})
	}
}

// heapPeak measures the size of Go's heap in bytes, including garbage that is not collected yet. The result before is
// the size when heapPeak is called. The function stop ends the measurement and returns the greatest size.
func heapPeak() (before uint64, stop func() uint64) {
	read := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	done, most := make(chan struct{}), make(chan uint64)
	before = read()
	go func() {
		peak := before
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-done:
				tick.Stop()
				most <- max(peak, read())
				return
			case <-tick.C:
				peak = max(peak, read())
			}
		}
	}()
	return before, func() uint64 { close(done); return <-most }
}

// TestDerivingEnds: if the context ends while ddtop reads sections, units or entries, the reading ends, too.
func TestDerivingEnds(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	file := hostileDWARF(t)["long names"]
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	info, err := ReadDebugInfo(ended, f)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := ReadDebugInfo(ended, f); !errors.Is(err, context.Canceled) {
		t.Errorf("reading: %v", err)
	}
	if _, err := Derive(ended, info, DeriveOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("deriving: %v", err)
	}
}

// TestLongStringsAreCut: each string of a section ends within the limit. Short strings stay unchanged.
func TestLongStringsAreCut(t *testing.T) {
	b := []byte("rb_thread_t\x00\x00" + strings.Repeat("x", 3*maxDebugString) + "\x00RClass\x00open")
	size := len(b)
	cutStrings(b)
	parts := bytes.Split(b, []byte{0})
	for _, p := range parts {
		if len(p) >= maxDebugString {
			t.Errorf("a string of %d bytes", len(p))
		}
	}
	if len(b) != size || string(parts[0]) != "rb_thread_t" || string(parts[len(parts)-3]) != "RClass" || b[len(b)-1] != 0 {
		t.Errorf("%d bytes became %d, ending in %q", size, len(b), b[len(b)-16:])
	}
	cutStrings(nil)
}
