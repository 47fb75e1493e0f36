package attach

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/ddtop/ddtop/attach/mapped"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/internal/sorting"
)

// mappedFile is a file that the dumped process had mapped.
type mappedFile struct {
	file *safefile.File
	// compared is true if the core holds a part of the file, and the file has the same part.
	compared bool
	err      error
}

// give assigns the files that the user has named (CoreFiles.Files). Each replaces the mapped file with the same name.
// If no mapped file has this name, the file replaces the program.
func (c *Core) give(files []string) error {
	c.given = make(map[string]string)
	for _, f := range files {
		target := ""
		for _, m := range c.notes.mappings {
			if filepath.Base(m.Path) == filepath.Base(f) {
				target = m.Path
			}
		}
		if target == "" {
			target = c.exe()
		}
		if target == "" || c.given[target] != "" {
			return fmt.Errorf("%s has the name of none of the files that the process of %s had mapped", f, c.path)
		}
		c.given[target] = f
	}
	return nil
}

// Maps lists the memory of the process: mapped files, with the paths that the process saw, and other memory that the
// core describes. A core has no device and inode numbers of files. So Maps makes up such numbers, and gives each file
// different ones.
func (c *Core) Maps() ([]Mapping, error) { return c.mappings, nil }

// allMappings joins the list of mapped files with the segments.
func (c *Core) allMappings() []Mapping {
	files := c.notes.mappings
	out := make([]Mapping, 0, len(files)+len(c.segments))
	for _, m := range files {
		s, ok, _ := c.find(m.Start)
		// gcore writes no segment for code and other constant memory. So a mapping without a segment is marked as
		// executable, until the ELF headers of its file say which part is code.
		m.Exec = !ok || s.rights&elf.PF_X != 0
		m.Write = ok && s.rights&elf.PF_W != 0
		out = append(out, m)
	}
	from, next := Address(0), 0
	for _, s := range c.segments {
		end := s.addr + Address(s.size)
		for from = max(from, s.addr); from < end; {
			for next < len(files) && files[next].End <= from {
				next++
			}
			until, after := end, end
			if next < len(files) && files[next].Start < end {
				until, after = files[next].Start, min(end, files[next].End)
			}
			if until > from {
				out = append(out, c.withoutFile(s, from, until))
			}
			from = after
		}
	}
	sorting.By(out, func(a, b Mapping) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// withoutFile returns a mapping for the memory of a segment between two addresses. This memory belongs to no mapped
// file.
func (c *Core) withoutFile(s segment, from, until Address) Mapping {
	m := Mapping{Start: from, End: until, Device: "core",
		Read: s.rights&elf.PF_R != 0, Write: s.rights&elf.PF_W != 0, Exec: s.rights&elf.PF_X != 0}
	if at := c.notes.vdsoAt; at >= from && at < until {
		m.Path = "[vdso]"
	}
	return m
}

// Exe returns the program's path. It is empty if the core does not have it.
func (c *Core) Exe() string { return c.exe() }

func (c *Core) exe() string {
	m, ok := c.mappingOf(c.notes.programAt)
	if !ok {
		return ""
	}
	return m.Path
}

func (c *Core) mappingOf(addr Address) (Mapping, bool) {
	i := sort.Search(len(c.notes.mappings), func(i int) bool { return c.notes.mappings[i].Start > addr })
	if i == 0 || addr >= c.notes.mappings[i-1].End {
		return Mapping{}, false
	}
	return c.notes.mappings[i-1], true
}

// readMapped reads memory that the core leaves out because a mapped file holds it.
func (c *Core) readMapped(addr Address, buf []byte) error {
	for len(buf) > 0 {
		m, ok := c.mappingOf(addr)
		if !ok {
			return ErrUnmapped
		}
		f, err := c.open(m.Path)
		if err != nil {
			return err
		}
		n := int(min(uint64(len(buf)), uint64(m.End-addr)))
		if _, err := f.ReadAt(buf[:n], int64(m.Offset+uint64(addr-m.Start))); err != nil {
			return fmt.Errorf("%w: %s: %w", errFileUnusable, m.Path, err)
		}
		addr += Address(n)
		buf = buf[n:]
	}
	return nil
}

// open returns the file that was mapped at path. The first call opens the file and checks that it was not replaced
// since the dump. Later calls return the same file.
func (c *Core) open(path string) (*safefile.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.files[path]; ok {
		return f.file, f.err
	}
	compared := false
	f, err := c.findFile(path)
	if err == nil {
		if compared, err = c.check(path, f); err != nil {
			f.Close()
			f = nil
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w (say where it is with --exe FILE, or --root FOLDER)", errFileUnusable, err)
	}
	c.files[path] = &mappedFile{f, compared, err}
	return f, err
}

// findFile opens the mapped file at a path, or the file that the user has named to replace it. The path comes from the
// core, which an attacker may have written. So findFile refuses a file that is not a program or a library.
func (c *Core) findFile(path string) (*safefile.File, error) {
	if given := c.given[path]; given != "" {
		return safefile.Open(given, mapped.MaxMappedFile)
	}
	folder := c.root
	if folder == "" {
		folder = "/"
	}
	root, err := safefile.OpenRoot(folder, nil, &c.gate)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(path, mapped.MaxMappedFile)
	if err != nil {
		return nil, err
	}
	var magic [4]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		f.Close()
		return nil, fmt.Errorf("%s is not a program or library", path)
	}
	return f, nil
}

// check compares the start of a file with the memory in the core, to find out whether the file was replaced. The core
// can hold this start, because the kernel writes the first page of each mapped ELF file into the core. The page holds
// the build id (core(5), coredump_filter bit 4). Many cores that gcore has written do not hold that page. In this case
// compared is false, and check refuses only a file that was changed after the core was written.
func (c *Core) check(path string, f *safefile.File) (compared bool, err error) {
	for _, m := range c.notes.mappings {
		if m.Path != path || m.Offset != 0 {
			continue
		}
		s, ok, _ := c.find(m.Start)
		at := uint64(m.Start - s.addr)
		if !ok || at >= s.kept {
			continue
		}
		inCore := make([]byte, min(mapped.PageSize, s.kept-at, uint64(m.End-m.Start)))
		if _, err := c.file.ReadAt(inCore, s.offset+int64(at)); err != nil {
			return false, err
		}
		inFile := make([]byte, len(inCore))
		n, err := f.ReadAt(inFile, 0)
		if n == 0 {
			return false, err
		}
		if !bytes.Equal(inFile[:n], inCore[:n]) {
			return false, fmt.Errorf("%s is not the file that was mapped as %s: it was replaced since the core was written", f.Name(), path)
		}
		compared = true
	}
	if compared {
		return true, nil
	}
	if !c.written.IsZero() && f.Info().ModTime().After(c.written) && c.given[path] == "" {
		return false, fmt.Errorf("%s has changed since the core was written, and the core holds nothing of it to compare", f.Name())
	}
	return false, nil
}

// Module opens the ELF file that the process had mapped at path, one of the paths of mappings (the result of Maps). If
// the core holds no part of the file to compare, Module returns an error. The file could then be another one, whose
// functions have other addresses.
func (c *Core) Module(path string, mappings []Mapping) (*Module, error) {
	own := slices.DeleteFunc(slices.Clone(mappings), func(m Mapping) bool { return !m.IsFile() || m.Path != path })
	if len(own) == 0 {
		return nil, fmt.Errorf("the process of %s had not mapped %s", c.path, path)
	}
	m, err := c.moduleOf(mapped.MappedImages(own)[0])
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.files[path]; f.err == nil && !f.compared {
		m.Close()
		return nil, fmt.Errorf("%w: %s: the core holds nothing of it to compare", errFileUnusable, path)
	}
	return m, nil
}

// moduleOf opens the ELF file of an image, which is one load of the file with its mappings. If the file cannot be used,
// moduleOf reads the ELF headers and symbols from the core's memory instead.
func (c *Core) moduleOf(of mapped.Image) (*Module, error) {
	path, own := of.Path, of.Mappings
	f, err := c.open(path)
	if err != nil {
		if own[0].Offset == 0 {
			if m, err := mapped.NewModuleFromMemory(path, c, own[0].Start); err == nil {
				return m, nil
			}
		}
		return nil, err
	}
	// The core keeps the file open: the module does not close it.
	m, err := mapped.NewMappedModule(path, f, own, nil)
	if err == nil && c.root != "" {
		m.Roots = []mapped.DebugRoot{mapped.OwnRoot(c.root), mapped.OwnRoot("/")}
	}
	return m, err
}

// Ruby finds the file with the Ruby VM in the core, as FindRuby does for a live process. The error is ErrNotRuby if
// there is none. The error is errFileUnusable if the core lacks the memory of a mapped file, and the file itself cannot
// be used.
func (c *Core) Ruby() (*Module, error) {
	images := mapped.MappedImages(c.mappings)
	if len(images) == 0 {
		return nil, fmt.Errorf("%s: %w: it does not say which files were mapped (NT_FILE)", c.path, errNotCore)
	}
	rubies, program, refused := mapped.FindRubyModules(images, c.exe(), c.moduleOf, func(m *Module) bool { return m.Runs(c) })
	if len(rubies) > 0 {
		for _, m := range rubies[1:] {
			m.Close()
		}
		return rubies[0], nil
	}
	if program != nil {
		program.Close()
	}
	if refused != nil && !errors.Is(refused, ErrNotRuby) {
		return nil, fmt.Errorf("%s: %w", c.path, refused)
	}
	return nil, fmt.Errorf("%s: %w: it is of %s", c.path, ErrNotRuby, strings.TrimSpace(c.exe()+" "+c.notes.comm))
}
