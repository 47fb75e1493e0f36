package layout

import (
	"bytes"
	"cmp"
	"compress/flate"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ddtop/ddtop/internal/sorting"
)

// packed holds all layout tables of the folder attach/layout/tables. Its first line is a list of packedTable in JSON.
// The compressed tables follow. The first table is compressed alone, and is the dictionary for the others, which
// differ from it only a little. TestPacked makes the file tables.bin.
//
//go:embed tables.bin
var packed []byte

// packedTable describes one of the compressed tables in packed.
type packedTable struct {
	File string `json:"file"`
	Head head   `json:"head"`
	// Size is the number of bytes of the compressed table. The field at is the index in packed at which these bytes
	// begin.
	Size int `json:"size"`
	at   int
}

// readPacked reads the list at the start of packed. Only the first call reads the list, and later calls return the same
// result.
var readPacked = sync.OnceValues(func() ([]packedTable, error) {
	first, _, _ := bytes.Cut(packed, []byte("\n"))
	var list []packedTable
	if err := json.Unmarshal(first, &list); err != nil {
		return nil, err
	}
	at := len(first) + 1
	for i := range list {
		list[i].at = at
		at += list[i].Size
	}
	return list, nil
})

// readTable returns the text of a table.
func readTable(file string) ([]byte, error) {
	list, err := readPacked()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(t packedTable) bool { return t.File == file })
	if i < 0 {
		return nil, fmt.Errorf("no table is called %s", file)
	}
	var first []byte
	if i > 0 {
		if first, err = list[0].text(nil); err != nil {
			return nil, err
		}
	}
	return list[i].text(first)
}

func (t *packedTable) text(dictionary []byte) ([]byte, error) {
	return io.ReadAll(flate.NewReaderDict(bytes.NewReader(packed[t.at:t.at+t.Size]), dictionary))
}

// ErrUnknownRelease is returned if there is no table for a release or machine.
var ErrUnknownRelease = errors.New("no layout is known for this Ruby")

// Match describes how well the table that For has chosen fits the target's Ruby.
type Match struct {
	// Exact is true if the table was made for exactly this release and configuration. If it is false, the table
	// belongs to the nearest known release of the same series. The caller must verify such a table on the target
	// before trusting it.
	Exact bool
	// Made is the newest release for which the table is known to be right. If Exact is false, it is not the target's
	// release.
	Made string
	// Note describes to the user why the table is not exact. It is empty if Exact is true.
	Note string
}

// Release is a release and a machine that have a table.
type Release struct {
	Version, Machine string
	// JmpBuf and Builtin report whether there is a table of exactly this release for two kinds of Ruby builds. JmpBuf
	// is for builds with the C library's jmp_buf, Builtin for builds with __builtin_setjmp (Table.JmpBuf).
	JmpBuf, Builtin bool
}

// For finds the table for a release on a machine. version is the text of the target's ruby_version, for example
// "3.4.11", or "4.1.0" on the development branch. machine is "x86_64" or "aarch64", from the target's ELF file. jmpBuf
// is the result of JmpBuf of attach.Module.
//
// A patch release may have no table, because it is newer than all known ones or was skipped. In this case For returns
// the table of the newest known release before it, with Match.Exact false. For returns ErrUnknownRelease if the series
// or the machine has no table at all.
func For(version, machine string, jmpBuf bool) (*Table, Match, error) {
	index, want, err := readIndexFor(version)
	if err != nil {
		return nil, Match{}, err
	}
	var best *entry
	for i := range index {
		e := &index[i]
		if e.machine != machine || e.version[0] != want[0] || e.version[1] != want[1] {
			continue
		}
		switch {
		case best == nil:
			best = e
		case e.version[2] <= want[2] && (e.version[2] > best.version[2] || best.version[2] > want[2]):
			best = e
		}
	}
	if best == nil {
		return nil, Match{}, fmt.Errorf("%w: Ruby %s on %s; known on this machine type: %s; a newer ddtop that knows it is needed",
			ErrUnknownRelease, version, machine, knownSeries(index, machine))
	}
	t, err := best.table(jmpBuf)
	if err != nil {
		return nil, Match{}, err
	}
	m := Match{Exact: best.version == want, Made: best.release}
	switch {
	case !m.Exact:
		m.Note = fmt.Sprintf("Ruby %s is not known; the layout of %s is used", version, best.release)
	case best.snapshot != "":
		m.Exact = false
		m.Note = fmt.Sprintf("Ruby %s is in development; its layout as of %s is used", version, best.snapshot)
	case t.JmpBuf != jmpBuf && want[0]*10+want[1] > 26:
		m.Exact = false
		m.Note = fmt.Sprintf("Ruby %s on %s is known with jmp_buf=%t only, this one was built with jmp_buf=%t",
			version, machine, t.JmpBuf, jmpBuf)
	}
	return t, m, nil
}

// Nearest returns the table of the known release nearest to version, of any series, on the same machine. It prefers the
// newest release that is not newer than version, and otherwise returns the oldest. The table may be wrong for version:
// it is only the base from which a layout is derived. release is the table's release. The error is ErrUnknownRelease if
// the machine has no table, or if version is not a version number.
func Nearest(version, machine string, jmpBuf bool) (t *Table, release string, err error) {
	index, want, err := readIndexFor(version)
	if err != nil {
		return nil, "", err
	}
	var best *entry
	for i := range index {
		// The index has the oldest release first.
		if e := &index[i]; e.machine == machine && (best == nil || slices.Compare(e.version[:], want[:]) <= 0) {
			best = e
		}
	}
	if best == nil {
		return nil, "", fmt.Errorf("%w: nothing is known of Ruby on %s", ErrUnknownRelease, machine)
	}
	t, err = best.table(jmpBuf)
	return t, best.release, err
}

// readIndexFor returns the index of all tables, and the parsed version.
func readIndexFor(version string) (index []entry, want [3]int, err error) {
	if want, err = parseVersion(version); err != nil {
		return nil, want, fmt.Errorf("%w: %q is not a version of Ruby", ErrUnknownRelease, version)
	}
	index, err = readIndex()
	return index, want, err
}

// Releases lists every release and machine with an exact table, oldest first.
func Releases() ([]Release, error) {
	index, err := readIndex()
	if err != nil {
		return nil, err
	}
	out := make([]Release, 0, len(index))
	for _, e := range index {
		out = append(out, Release{Version: e.release, Machine: e.machine, JmpBuf: e.files[withJmpBuf] != "", Builtin: e.files[builtin] != ""})
	}
	return out, nil
}

// configuration says how a build of Ruby saves registers for exceptions (in tags) and for fibers: with jmp_buf or with
// __builtin_setjmp (Table.JmpBuf).
type configuration int

const (
	builtin configuration = iota
	withJmpBuf
)

func configurationOf(jmpBuf bool) configuration {
	if jmpBuf {
		return withJmpBuf
	}
	return builtin
}

type entry struct {
	release, machine string
	version          [3]int
	// files are the names of the release's tables, one for each configuration. A name is empty if there is no table for
	// the configuration.
	files    [2]string
	snapshot string
}

// readIndex lists the releases of all tables. Only the first call makes the list, and later calls return the same list.
var readIndex = sync.OnceValues(func() ([]entry, error) {
	list, err := readPacked()
	if err != nil {
		return nil, err
	}
	var index []entry
	at := make(map[[2]string]int)
	for _, t := range list {
		file, h := t.File, t.Head
		if err := h.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, release := range h.AppliesTo {
			v, err := parseVersion(release)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			key := [2]string{release, h.Machine}
			if _, ok := at[key]; !ok {
				at[key] = len(index)
				index = append(index, entry{release: release, machine: h.Machine, version: v, snapshot: h.Snapshot})
			}
			of := &index[at[key]].files[configurationOf(h.JmpBuf)]
			if *of != "" {
				return nil, fmt.Errorf("%s and %s are both for Ruby %s", *of, file, release)
			}
			*of = file
		}
	}
	sorting.By(index, func(a, b entry) int {
		return cmp.Or(slices.Compare(a.version[:], b.version[:]), strings.Compare(a.machine, b.machine))
	})
	return index, nil
})

// table reads the release's table for a configuration (with or without jmp_buf). If there is none, it reads the table
// for the other configuration.
func (e *entry) table(jmpBuf bool) (*Table, error) {
	want := configurationOf(jmpBuf)
	file := cmp.Or(e.files[want], e.files[1-want])
	text, err := readTable(file)
	if err != nil {
		return nil, err
	}
	t, err := ParseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

func parseVersion(s string) ([3]int, error) {
	var v [3]int
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return v, fmt.Errorf("%q is not MAJOR.MINOR.PATCH", s)
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return v, fmt.Errorf("%q is not MAJOR.MINOR.PATCH", s)
		}
		v[i] = int(n)
	}
	return v, nil
}

func knownSeries(index []entry, machine string) string {
	var out []string
	for _, e := range index {
		s := fmt.Sprintf("%d.%d", e.version[0], e.version[1])
		if e.machine == machine && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return "x86_64 and aarch64 only"
	}
	return strings.Join(out, ", ")
}
