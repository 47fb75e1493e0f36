package attach

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/sorting"
)

// maxCoreNotes limits how many bytes of a core file's notes are read. Each thread has about 360 bytes of notes, and the
// list of mapped files is one more note.
const maxCoreNotes = 32 << 20

// A note has a header of three words (12 bytes), then its owner's name and its content, each padded to four bytes.
// noteOwner is the number of bytes that the owner's name takes: all notes that ddtop uses have the owner "CORE", which
// takes 8.
const (
	noteHeader = 12
	noteOwner  = 8
)

// noteSize returns the size of a note with its header, in bytes.
func noteSize(head []byte) int64 {
	pad := func(n uint32) int64 { return (int64(n) + 3) &^ 3 }
	return noteHeader + pad(binary.LittleEndian.Uint32(head)) + pad(binary.LittleEndian.Uint32(head[4:]))
}

// wantedNote reports whether parseCoreNotes reads a note. It decides by the note's header and the owner's name.
func wantedNote(head []byte) bool {
	name := head[noteHeader:][:min(binary.LittleEndian.Uint32(head), noteOwner)]
	if strings.TrimRight(string(name), "\x00") != "CORE" {
		return false
	}
	switch binary.LittleEndian.Uint32(head[8:]) {
	case ntPRStatus, ntPRPSInfo, ntAuxv, ntFile:
		return true
	}
	return false
}

// maxCoreThreads limits the number of threads that are read from a core.
const maxCoreThreads = 1 << 20

// These are the types of the notes in a core file that ddtop reads (elf.h, linux/elfcore.h).
const (
	ntPRStatus = 1
	ntPRPSInfo = 3
	ntAuxv     = 6
	ntFile     = 0x46494c45
)

type coreNotes struct {
	pid, uid int
	tids     []int32
	comm     string
	args     []string
	mappings []Mapping
	// programAt is an address within the mapped program: of its program headers, or of its entry point. vdsoAt is the
	// start of the vDSO. Each is zero if the core does not have it.
	programAt, vdsoAt Address
	// registers maps the TID of each thread to its registers. They are valid on x86_64 only.
	registers map[int32][NumUserRegisters]uint64
}

// parseCoreNotes reads a core's notes. The error says what the core lacks or which note is damaged.
func parseCoreNotes(b []byte) (coreNotes, error) {
	n := coreNotes{uid: -1, registers: make(map[int32][NumUserRegisters]uint64)}
	for len(b) >= 12 {
		nameSize, size, kind := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint32(b[8:])
		at := 12 + (nameSize+3)&^3
		end := at + (size+3)&^3
		if at+size > uint64(len(b)) {
			return n, fmt.Errorf("a note of %d bytes is cut off", size)
		}
		name, desc := string(b[12:12+nameSize]), b[at:at+size]
		b = b[min(end, uint64(len(b))):]
		if strings.TrimRight(name, "\x00") != "CORE" {
			continue
		}
		switch kind {
		case ntPRStatus:
			n.addThread(desc)
		case ntPRPSInfo:
			n.describe(desc)
		case ntAuxv:
			n.findProgram(desc)
		case ntFile:
			if err := n.addFiles(desc); err != nil {
				return n, err
			}
		}
	}
	if len(n.tids) == 0 {
		return n, errors.New("it holds no thread")
	}
	if n.pid == 0 {
		n.pid = int(n.tids[0])
	}
	slices.Sort(n.tids)
	return n, nil
}

// NumUserRegisters is the number of words of struct user_regs_struct on x86_64.
const NumUserRegisters = 27

// addThread reads a thread's elf_prstatus (linux/elfcore.h). The struct begins with 16 bytes about a signal, two signal
// masks, the thread's id and three other ids. Next are four time values of 16 bytes each, and then the registers. If
// two notes have the same thread id, addThread keeps the registers of the first.
func (n *coreNotes) addThread(b []byte) {
	const at, registersAt = 32, 112
	if len(b) < at+4 || len(n.tids) >= maxCoreThreads {
		return
	}
	tid := int32(binary.LittleEndian.Uint32(b[at:]))
	n.tids = append(n.tids, tid)
	if _, known := n.registers[tid]; known || len(b) < registersAt+NumUserRegisters*8 {
		return
	}
	var regs [NumUserRegisters]uint64
	for i := range regs {
		regs[i] = binary.LittleEndian.Uint64(b[registersAt+i*8:])
	}
	n.registers[tid] = regs
}

// describe reads the user, PID, name and arguments of the process from elf_prpsinfo of a 64-bit machine.
func (n *coreNotes) describe(b []byte) {
	const uidAt, pidAt, nameAt, argsAt, length = 16, 24, 40, 56, 136
	if len(b) < length {
		return
	}
	text := func(b []byte) string { s, _, _ := bytes.Cut(b, []byte{0}); return string(s) }
	n.uid, n.pid = int(binary.LittleEndian.Uint32(b[uidAt:])), int(binary.LittleEndian.Uint32(b[pidAt:]))
	n.comm, n.args = text(b[nameAt:argsAt]), strings.Fields(text(b[argsAt:length]))
}

// findProgram reads the addresses of the program and the vDSO from the auxiliary vector (getauxval(3)).
func (n *coreNotes) findProgram(b []byte) {
	const atPhdr, atEntry, atVDSO = 3, 9, 33
	for ; len(b) >= 16; b = b[16:] {
		switch tag, v := binary.LittleEndian.Uint64(b), Address(binary.LittleEndian.Uint64(b[8:])); {
		case tag == atEntry, tag == atPhdr && n.programAt == 0:
			n.programAt = v
		case tag == atVDSO:
			n.vdsoAt = v
		}
	}
}

// addFiles reads the note NT_FILE. It has a count, the unit of the offsets, three words for each mapping, and then the
// paths (fs/binfmt_elf.c, fill_files_note).
func (n *coreNotes) addFiles(b []byte) error {
	if len(b) < 16 {
		return errors.New("its list of mapped files is cut off")
	}
	count, unit := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if count > mapped.MaxMappings-uint64(len(n.mappings)) || count*24 > uint64(len(b)-16) || unit == 0 || unit > 1<<30 {
		return fmt.Errorf("its list of %d mapped files in units of %d bytes can't be", count, unit)
	}
	names := b[16+count*24:]
	inodes := make(map[string]uint64)
	for i := range count {
		e := b[16+i*24:]
		name, rest, ok := bytes.Cut(names, []byte{0})
		if !ok {
			return errors.New("the names of its mapped files are cut off")
		}
		names = rest
		m := Mapping{Start: Address(binary.LittleEndian.Uint64(e)), End: Address(binary.LittleEndian.Uint64(e[8:])), Read: true,
			Offset: binary.LittleEndian.Uint64(e[16:]) * unit, Device: "core"}
		m.Path, m.Deleted = strings.CutSuffix(string(name), " (deleted)")
		if m.End <= m.Start {
			continue
		}
		// A core does not hold the inode numbers of files. So make up a number for each path.
		if inodes[string(name)] == 0 {
			inodes[string(name)] = uint64(len(inodes) + 1)
		}
		m.Inode = inodes[string(name)]
		n.mappings = append(n.mappings, m)
	}
	sorting.By(n.mappings, func(a, b Mapping) int { return cmp.Compare(a.Start, b.Start) })
	return nil
}
