package mapped

import (
	"debug/elf"
	"fmt"
)

// FileSpan is a range of addresses of a module, as written in the module's file. Add Module.Bias to get addresses in
// the target.
type FileSpan struct{ Addr, Size uint64 }

// UnwindHeader returns the place of the section .eh_frame_hdr, the index of the unwind tables. It is empty if the file
// has no such section.
func (m *Module) UnwindHeader() FileSpan { return m.unwind }

// Content returns the bytes that the file places at addr. The parameter most limits their number. Content returns fewer
// bytes if the segment ends earlier. It reads them from the file, or from the target's memory if the module has no
// file.
func (m *Module) Content(mem Memory, addr uint64, most int) ([]byte, error) {
	if m.File == nil {
		at := m.Bias + Address(addr)
		for _, span := range m.Loads {
			if at >= span.Start && at < span.End {
				b := make([]byte, min(uint64(most), uint64(span.End-at)))
				return b, mem.Read(at, b)
			}
		}
		return nil, fmt.Errorf("%s: %w: nothing is mapped at %v", m.Path, ErrNoModule, at)
	}
	for _, p := range m.File.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			b := make([]byte, min(uint64(most), p.Filesz-(addr-p.Vaddr)))
			if _, err := p.ReadAt(b, int64(addr-p.Vaddr)); err != nil {
				return nil, fmt.Errorf("%s: reading %d bytes at %#x: %w", m.Path, len(b), addr, err)
			}
			return b, nil
		}
	}
	return nil, fmt.Errorf("%s: %w: no segment holds %#x", m.Path, errELFLimit, addr)
}
