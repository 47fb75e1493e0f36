package mapped

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// MaxMappings limits how many mappings of one process are read. The kernel's default limit is 65,530
// (vm.max_map_count).
const MaxMappings = 1 << 18

// Mapping is one line of /proc/PID/maps.
type Mapping struct {
	// Start is the first address. End is the address behind the last one.
	Start, End Address
	// Read, Write, Exec and Shared are the permissions.
	Read, Write, Exec, Shared bool
	// Offset is the offset in the file at which the mapping begins, in bytes.
	Offset uint64
	// Device is "major:minor" in hexadecimal. Inode is the file's number, or 0 for memory without a file.
	Device string
	Inode  uint64
	// Path is the file's path as seen from ddtop's root directory. It lacks the kernel's " (deleted)", and the
	// kernel's escapes (\012 for a line feed) are decoded. For memory without a file it is "[heap]" or similar, or ""
	// if the memory has no name.
	Path string
	// Deleted is set if the file has been removed or replaced since it was mapped.
	Deleted bool
}

// IsFile reports whether the mapping maps a file.
func (m Mapping) IsFile() bool { return m.Inode != 0 && strings.HasPrefix(m.Path, "/") }

// ParseMaps parses the text of /proc/PID/maps (proc_pid_maps(5)). If a line is no mapping, the error quotes it.
func ParseMaps(text []byte) ([]Mapping, error) {
	var out []Mapping
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		m, err := parseMapping(line)
		if err != nil {
			return nil, fmt.Errorf("maps line %d: %w", len(out)+1, err)
		}
		if len(out) >= MaxMappings {
			return nil, fmt.Errorf("more than %d mappings", MaxMappings)
		}
		out = append(out, m)
	}
	return out, nil
}

func parseMapping(line []byte) (Mapping, error) {
	var m Mapping
	rest := line
	next := func() []byte {
		rest = bytes.TrimLeft(rest, " ")
		var f []byte
		f, rest, _ = bytes.Cut(rest, []byte(" "))
		return f
	}
	bad := func() (Mapping, error) { return Mapping{}, fmt.Errorf("%q is not a mapping", line) }
	lo, hi, ok := bytes.Cut(next(), []byte("-"))
	if !ok {
		return bad()
	}
	start, err1 := strconv.ParseUint(string(lo), 16, 64)
	end, err2 := strconv.ParseUint(string(hi), 16, 64)
	if err1 != nil || err2 != nil || end <= start {
		return bad()
	}
	m.Start, m.End = Address(start), Address(end)
	perms := next()
	if len(perms) != 4 {
		return bad()
	}
	m.Read, m.Write, m.Exec, m.Shared = perms[0] == 'r', perms[1] == 'w', perms[2] == 'x', perms[3] == 's'
	var err error
	if m.Offset, err = strconv.ParseUint(string(next()), 16, 64); err != nil {
		return bad()
	}
	m.Device = string(next())
	if m.Inode, err = strconv.ParseUint(string(next()), 10, 64); err != nil {
		return bad()
	}
	path := string(bytes.TrimLeft(rest, " "))
	if m.Inode != 0 {
		path, m.Deleted = strings.CutSuffix(path, " (deleted)")
	}
	m.Path = unescapeMapsPath(path)
	return m, nil
}

// unescapeMapsPath decodes a line feed in a path. In maps, the line feed is the only character that the kernel writes
// as an octal escape (fs/proc/task_mmu.c, seq_file_path with "\n").
func unescapeMapsPath(path string) string { return strings.ReplaceAll(path, `\012`, "\n") }
