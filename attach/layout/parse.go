package layout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Limits of a table's text: what is beyond them is no table of ours.
const (
	maxFields    = 1 << 16
	maxStruct    = 1 << 20
	firstComment = "# ddtop layout 1"
)

// ErrFormat is returned for a text that is not a layout table.
var ErrFormat = errors.New("not a layout table")

type head struct {
	release, machine     string
	snapshot             string
	applies              []string
	jmpBuf, configurable bool
}

// parseHead reads what the index needs: the lines before the first struct, and whether there is a variant.
func parseHead(text string) (head, error) {
	var h head
	if !strings.HasPrefix(text, firstComment) {
		return h, ErrFormat
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if f[0] == "s" {
			break
		}
		h.line(f)
	}
	h.configurable = strings.Contains(text, "\nv jmp_buf\n")
	if h.release == "" || h.machine == "" || len(h.applies) == 0 {
		return h, fmt.Errorf("%w: release, machine or applies is missing", ErrFormat)
	}
	return h, nil
}

func (h *head) line(f []string) {
	switch {
	case f[0] == "release" && len(f) == 2:
		h.release = f[1]
	case f[0] == "machine" && len(f) == 2:
		h.machine = f[1]
	case f[0] == "snapshot" && len(f) == 2:
		h.snapshot = f[1]
	case f[0] == "applies":
		h.applies = f[1:]
	case f[0] == "jmp_buf" && len(f) == 1:
		h.jmpBuf = true
	}
}

// Parse reads a table from its text form, with the jmp_buf variant applied where jmpBuf is set and the text has one.
// ErrFormat is returned for text that is none.
func Parse(text string, jmpBuf bool) (*Table, error) {
	h, err := parseHead(text)
	if err != nil {
		return nil, err
	}
	t := &Table{Name: h.release + " " + h.machine, AppliesTo: h.applies, Machine: h.machine, JmpBuf: h.jmpBuf,
		fields: make(map[string]Field, 1500), sizes: make(map[string]int, 160), constants: make(map[string]int64, 300)}
	prefix, body, number := "", false, 0
	for line := range strings.Lines(text) {
		number++
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if f[0] == "v" && len(f) == 2 {
			if f[1] != "jmp_buf" {
				return nil, fmt.Errorf("%w: line %d: unknown variant %q", ErrFormat, number, f[1])
			}
			if !jmpBuf {
				break
			}
			t.Name += " jmp_buf"
			t.JmpBuf = true
			prefix = ""
			continue
		}
		body = body || f[0] == "s" && len(f) == 3
		if !body {
			continue
		}
		if err := t.line(f, &prefix); err != nil {
			return nil, fmt.Errorf("%w: line %d: %v", ErrFormat, number, err)
		}
		if len(t.fields) > maxFields {
			return nil, fmt.Errorf("%w: more than %d fields", ErrFormat, maxFields)
		}
	}
	return t, nil
}

func (t *Table) line(f []string, prefix *string) error {
	switch {
	case f[0] == "s" && len(f) == 3:
		size, err := number(f[2], maxStruct)
		if err != nil {
			return err
		}
		t.sizes[f[1]] = size
		*prefix = f[1] + "."
		return nil
	case f[0] == "c" && len(f) == 3:
		v, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return err
		}
		t.constants[f[1]] = v
		return nil
	case (len(f) == 3 || len(f) == 5) && *prefix != "":
		var field Field
		for i, to := range []*int{&field.Offset, &field.Size, &field.BitOffset, &field.BitSize}[:len(f)-1] {
			v, err := number(f[i+1], maxStruct)
			if err != nil {
				return err
			}
			*to = v
		}
		if field.BitOffset+field.BitSize > 64 {
			return fmt.Errorf("bits %d+%d are beyond a word", field.BitOffset, field.BitSize)
		}
		t.fields[*prefix+f[0]] = field
		return nil
	}
	return fmt.Errorf("%q", strings.Join(f, " "))
}

func number(s string, limit int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, err
	}
	if n > uint64(limit) {
		return 0, fmt.Errorf("%d is beyond %d", n, limit)
	}
	return int(n), nil
}
