package mapped

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// These are exported variables that identify a CRuby. The version and the description are in .dynsym of every release
// from 2.5 on, whether the file is stripped or not (docs/internals/threads.md#finding-the-vm).
const (
	SymbolVersion     = "ruby_version"
	symbolDescription = "ruby_description"
	// symbolVM is the variable with the pointer to the VM. Releases up to 3.2 export it (vm.c).
	symbolVM = "ruby_current_vm_ptr"
)

// MaxLibraries limits how many mapped files are searched for a CRuby if neither a libruby nor the program has a running
// VM.
const MaxLibraries = 512

// maxVersionText limits the lengths of ruby_version and ruby_description, in bytes.
const maxVersionText = 256

// ErrNotRuby means that the process is not a CRuby process.
var ErrNotRuby = errors.New("not a CRuby process")

// RubyVersion reads the release and the description from the memory of a process with this module. The release is
// ruby_version, such as "3.4.11" ("4.1.0" on head). The description is ruby_description, the line that `ruby -v`
// prints, without +YJIT and other options. The error is ErrNotRuby if the module has no such symbols.
func (m *Module) RubyVersion(mem Memory) (version, description string, err error) {
	v, ok := m.Symbol(SymbolVersion)
	if !ok {
		return "", "", fmt.Errorf("%s: %w: it does not define %s", m.Path, ErrNotRuby, SymbolVersion)
	}
	if version, err = ReadCString(mem, v.Addr, maxVersionText); err != nil {
		return "", "", fmt.Errorf("reading %s of %s: %w", SymbolVersion, m.Path, err)
	}
	if !IsVersion(version) {
		return "", "", fmt.Errorf("%s: %w: its %s says %q", m.Path, ErrNotRuby, SymbolVersion, version)
	}
	if d, ok := m.Symbol(symbolDescription); ok {
		if description, err = ReadCString(mem, d.Addr, maxVersionText); err != nil {
			return "", "", fmt.Errorf("reading %s of %s: %w", symbolDescription, m.Path, err)
		}
	}
	return version, description, nil
}

// FileVersion reads the release from the module's file, without a process. The error is ErrNotRuby if the file has no
// ruby_version. It also fails for a separate debug file, because that file has symbols but not the text of the
// version.
func (m *Module) FileVersion() (string, error) {
	v, ok := m.Symbol(SymbolVersion)
	if !ok {
		return "", fmt.Errorf("%s: %w: it does not define %s", m.Path, ErrNotRuby, SymbolVersion)
	}
	var buf [maxVersionText]byte
	n := min(len(buf), max(int(v.Size), 8))
	if err := m.ReadFile(v, buf[:n]); err != nil {
		return "", err
	}
	text, _, _ := strings.Cut(string(buf[:n]), "\x00")
	if !IsVersion(text) {
		return "", fmt.Errorf("%s: %w: its %s says %q", m.Path, ErrNotRuby, SymbolVersion, text)
	}
	return text, nil
}

// IsVersion reports whether a text looks like a release: digits and dots, beginning with a digit.
func IsVersion(s string) bool {
	return s != "" && s[0] >= '0' && s[0] <= '9' && strings.Trim(s, "0123456789.") == ""
}

// IsLibRuby reports whether a file has the name of the CRuby library: libruby.so.3.4, libruby-3.1.so.3.1.2,
// libruby27.so.2.7. It is false for librubygc.default.so (the loadable garbage collector of Ruby 3.4) and librubyvm.so
// (TruffleRuby).
func IsLibRuby(path string) bool {
	rest, ok := strings.CutPrefix(filepath.Base(path), "libruby")
	if !ok {
		return false
	}
	name, _, ok := strings.Cut(rest, ".so")
	return ok && strings.Trim(name, "-.0123456789") == ""
}

// ForeignProgram has the facts about a program that is not CRuby. Describe uses them to find out which program it is.
type ForeignProgram struct {
	Exe, Title string
	// Libraries are the paths of the mapped files.
	Libraries []string
	// Section and Symbol report whether the program's file has a section or a symbol with this name.
	Section, Symbol func(name string) bool
}

// Describe returns a clause that begins with "it is" and says what the program is, and advice to the user.
func (f ForeignProgram) Describe() (what, help string) {
	base := filepath.Base(f.Exe)
	library := func(prefix string) bool {
		return slices.ContainsFunc(f.Libraries, func(l string) bool { return strings.HasPrefix(filepath.Base(l), prefix) })
	}
	switch {
	case library("librubyvm") || base == "truffleruby" || strings.Contains(f.Exe, "truffleruby"):
		return "it is TruffleRuby", "ddtop reads CRuby only; TruffleRuby has `--cpusampler`."
	case library("libjvm.so"):
		if strings.Contains(f.Title, "jruby") {
			return "it is JRuby, which runs on a Java VM", "ddtop reads CRuby only; for JRuby use jstack or async-profiler."
		}
		return "it is a Java VM (JRuby, if it runs Ruby at all)", "ddtop reads CRuby only; for Java use jstack or async-profiler."
	case strings.HasPrefix(base, "mruby") || base == "mirb" || f.Symbol("mrb_open") || f.Symbol("mrb_open_core") || library("libmruby"):
		return "it is mruby, another implementation of Ruby", "ddtop reads CRuby only."
	case f.Section(".go.buildinfo") || f.Section(".note.go.buildid") || f.Symbol("runtime.main"):
		return fmt.Sprintf("it is a Go program (%s)", base), "Give the PID of a Ruby process; `ddtop ps` lists them."
	case strings.HasPrefix(base, "python") || library("libpython"):
		return "it is Python", "For Python use py-spy."
	case base == "node" || base == "nodejs" || f.Symbol("node_module_register"):
		return "it is Node.js", "Give the PID of a Ruby process; `ddtop ps` lists them."
	}
	return fmt.Sprintf("it runs %s", f.Exe), "Give the PID of the Ruby process itself, not of the shell or supervisor that started it; `ddtop ps` lists them."
}

// maxRubies limits how many mapped files that contain a Ruby interpreter are examined in one process.
const maxRubies = 16

// Image is one load of a file, with the mappings that belong to it. A path can have several images: a file may have
// been replaced and loaded again, or loaded into two namespaces of the dynamic linker (dlmopen(3)).
type Image struct {
	Path     string
	Mappings []Mapping
}

// MappedImages returns the images of all mapped files, ordered by address. An image begins with the mapping of the
// file's first byte, if there is one. If one image of a file has code, the file's images without code are left out. A
// Ruby that reports a crash makes images without code. It maps its own libraries once more to read their debug
// information (addr2line.c, 2.5 to 4.0).
func MappedImages(mappings []Mapping) []Image {
	type file struct {
		path, device string
		inode        uint64
	}
	var out []Image
	last := make(map[file]int) // index of the image to which further mappings belong
	code := make(map[file]bool)
	for _, m := range mappings {
		if !m.IsFile() {
			continue
		}
		of := file{m.Path, m.Device, m.Inode}
		i, ok := last[of]
		if !ok || m.Offset == 0 {
			i = len(out)
			out, last[of] = append(out, Image{Path: m.Path}), i
		}
		out[i].Mappings = append(out[i].Mappings, m)
		code[of] = code[of] || m.Exec
	}
	return slices.DeleteFunc(out, func(of Image) bool {
		m := of.Mappings[0]
		return code[file{m.Path, m.Device, m.Inode}] &&
			!slices.ContainsFunc(of.Mappings, func(m Mapping) bool { return m.Exec })
	})
}

// FindRubyModules finds the images that define ruby_version. It tries each libruby and the program. If none of these
// has a running VM, it also tries other libraries, and files named like Ruby's programs. For example, if an emulator
// runs Ruby, the program is the emulator, and Ruby is one of the other files.
//
// In rubies, the images with a running VM come first. A process can also have a libruby that was never started, for
// example from an extension that embeds Ruby. If rubies is empty, program is the module of exe, or nil if it cannot be
// opened. refused is then the error that says most about the cause.
func FindRubyModules(images []Image, exe string, open func(Image) (*Module, error), runs func(*Module) bool) (rubies []*Module, program *Module, refused error) {
	running := 0
	try := func(of Image) error {
		if len(rubies) >= maxRubies {
			return nil
		}
		m, err := open(of)
		if err != nil {
			return err
		}
		switch {
		case !m.inItself(SymbolVersion):
			if program == nil && of.Path == exe {
				program = m
				return nil
			}
			m.Close()
			return fmt.Errorf("%w: %s does not define %s", ErrNotRuby, of.Path, SymbolVersion)
		case runs(m):
			rubies = slices.Insert(rubies, running, m)
			running++
		default:
			rubies = append(rubies, m)
		}
		return nil
	}
	for _, of := range images {
		if IsLibRuby(of.Path) {
			if err := try(of); err != nil {
				refused = keepWorse(refused, err)
			}
		}
	}
	for _, of := range images {
		if of.Path == exe && !IsLibRuby(exe) {
			if err := try(of); err != nil {
				refused = keepWorse(refused, err)
			}
			break
		}
	}
	if running == 0 && refused == nil {
		looked := 0
		for _, of := range images {
			base := filepath.Base(of.Path)
			if of.Path == exe || IsLibRuby(of.Path) || !strings.Contains(base, ".so") && !IsRubyName(base) {
				continue
			}
			if looked++; looked > MaxLibraries {
				break
			}
			_ = try(of) // ignore the error: most files are not Ruby
		}
	}
	if len(rubies) > 0 {
		if program != nil {
			program.Close()
		}
		return rubies, nil, nil
	}
	return nil, program, refused
}

// classesOfRuby are exported variables that hold a class or module once Ruby is initialized, on every release. One of
// these variables may stay 0 in libruby: if the program itself refers to the variable, the linker moves it into the
// program (a copy relocation). So RunningWord tries several variables.
var classesOfRuby = []string{"rb_cObject", "rb_mKernel", "rb_cUnboundMethod", "rb_cRandom"}

// Runs reports whether the VM of a module runs: it has started, and ruby_cleanup has not ended it. Runs also returns
// true if the module exports no variable that shows this.
func (m *Module) Runs(mem Memory) bool {
	for _, name := range append([]string{symbolVM}, classesOfRuby...) {
		if s, ok := m.Exported(name); ok && !s.TLS {
			_, ok := m.RunningWord(mem)
			return ok
		}
	}
	return true
}

// RunningWord returns the address of a word that is not 0 while the module's VM runs. If the pointer to the VM is
// exported, it is this pointer, which ruby_vm_destruct in vm.c sets to 0. Otherwise it is a variable that holds a
// class.
func (m *Module) RunningWord(mem Memory) (at Address, ok bool) {
	isSet := func(s Symbol) bool {
		var word [8]byte
		return mem.Read(s.Addr, word[:]) == nil && word != [8]byte{}
	}
	if s, ok := m.Exported(symbolVM); ok && !s.TLS {
		return s.Addr, isSet(s)
	}
	for _, name := range classesOfRuby {
		if s, ok := m.Exported(name); ok && isSet(s) {
			return s.Addr, true
		}
	}
	return 0, false
}

// MappedFiles returns the paths of all mapped files, ordered by address, each once.
func MappedFiles(mappings []Mapping) []string {
	var out []string
	seen := make(map[string]bool)
	for _, m := range mappings {
		if m.IsFile() && !seen[m.Path] {
			seen[m.Path] = true
			out = append(out, m.Path)
		}
	}
	return out
}

// keepWorse returns the one of two errors that says more about the cause. ErrNotRuby says the least.
func keepWorse(old, err error) error {
	if old == nil || errors.Is(old, ErrNotRuby) && !errors.Is(err, ErrNotRuby) {
		return err
	}
	return old
}

// IsRubyName reports whether a program's name is one under which CRuby is installed: ruby, ruby3.1, ruby27, ruby-3.4.
func IsRubyName(name string) bool {
	rest, ok := strings.CutPrefix(name, "ruby")
	return ok && strings.Trim(rest, "-.0123456789") == ""
}
