package layout

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// tableFormat is the name of the JSON format of a table. Its number changes when the meaning of tables changes.
const tableFormat = "ddtop layout 1"

// These are limits on the text of a table. ddtop writes no larger tables, so it refuses a larger one.
const (
	maxText   = 8 << 20 // bytes; real tables have about 8 kB
	maxFields = 1 << 16
	maxStruct = 1 << 20 // bytes
)

// errFormat is returned for a text that is not a layout table.
var errFormat = errors.New("not a layout table")

type head struct {
	Format    string   `json:"format"`
	Name      string   `json:"name"`
	AppliesTo []string `json:"applies_to"`
	Machine   string   `json:"machine"`
	JmpBuf    bool     `json:"jmp_buf"`
	// Snapshot names the state of Ruby's development branch that the table was made from. It is empty for a published
	// release.
	Snapshot string `json:"snapshot"`
}

// document is a table as written, in JSON. A field is [offset, size] in bytes, or [offset, size, first bit, bits].
type document struct {
	head
	Structs   map[string]jsonStruct `json:"structs"`
	Constants map[string]int64      `json:"constants"`
}

func (h *head) check() error {
	if h.Format != tableFormat || h.Machine == "" || len(h.AppliesTo) == 0 {
		return fmt.Errorf("%w: it lacks the format %q, a machine or releases", errFormat, tableFormat)
	}
	return nil
}

type jsonStruct struct {
	Size   int              `json:"size"`
	Fields map[string][]int `json:"fields"`
}

// WriteJSON writes the table as JSON with one field per line. The same table always gives the same text. ParseJSON
// reads it.
func (t *Table) WriteJSON(w io.Writer) error {
	b := bufio.NewWriter(w)
	text := func(v any) string {
		s, err := json.Marshal(v)
		if err != nil {
			panic(err) // cannot happen: strings and numbers can always be written as JSON
		}
		return string(s)
	}
	fmt.Fprintf(b, "{\n\"format\": %s,\n\"name\": %s,\n\"applies_to\": %s,\n\"machine\": %s,\n\"jmp_buf\": %t,\n\"structs\": {",
		text(tableFormat), text(t.Name), text(t.AppliesTo), text(t.Machine), t.JmpBuf)
	fields := make(map[string][]string)
	for path := range t.fields {
		name := structOf(path)
		fields[name] = append(fields[name], path)
	}
	for i, name := range slices.Sorted(maps.Keys(t.sizes)) {
		fmt.Fprintf(b, "%s\n %s: {\"size\": %d, \"fields\": {", comma(i), text(name), t.sizes[name])
		paths := fields[name]
		slices.SortFunc(paths, func(x, y string) int {
			f, g := t.fields[x], t.fields[y]
			return cmp.Or(cmp.Compare(f.Offset, g.Offset), cmp.Compare(f.BitOffset, g.BitOffset), cmp.Compare(g.Size, f.Size),
				strings.Compare(x, y))
		})
		for j, path := range paths {
			f := t.fields[path]
			place := []int{f.Offset, f.Size}
			if f.BitSize != 0 {
				place = append(place, f.BitOffset, f.BitSize)
			}
			fmt.Fprintf(b, "%s\n  %s: %s", comma(j), text(path[len(name)+1:]), text(place))
		}
		fmt.Fprint(b, "}}")
	}
	fmt.Fprint(b, "\n},\n\"constants\": {")
	for i, name := range slices.Sorted(maps.Keys(t.constants)) {
		fmt.Fprintf(b, "%s\n %s: %d", comma(i), text(name), t.constants[name])
	}
	fmt.Fprint(b, "\n}\n}\n")
	return b.Flush()
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// ParseJSON reads a table in the form that WriteJSON writes. The error is errFormat for other text, or for a field in
// an impossible place.
func ParseJSON(text []byte) (*Table, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: %d bytes of JSON", errFormat, len(text))
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%w: %w", errFormat, err)
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	if len(d.Structs) == 0 {
		return nil, fmt.Errorf("%w: it has no structs", errFormat)
	}
	t := &Table{Name: d.Name, AppliesTo: d.AppliesTo, Machine: d.Machine, JmpBuf: d.JmpBuf,
		fields: make(map[string]Field, 200), sizes: make(map[string]int, len(d.Structs)), constants: d.Constants}
	if t.constants == nil {
		t.constants = make(map[string]int64)
	}
	for name, s := range d.Structs {
		if s.Size < 0 || s.Size > maxStruct || name == "" || strings.Contains(name, ".") {
			return nil, fmt.Errorf("%w: struct %q of %d bytes", errFormat, name, s.Size)
		}
		t.sizes[name] = s.Size
		for path, place := range s.Fields {
			f, err := fieldOf(place)
			if err != nil {
				return nil, fmt.Errorf("%w: %s.%s: %w", errFormat, name, path, err)
			}
			t.fields[name+"."+path] = f
		}
	}
	if len(t.fields) > maxFields {
		return nil, fmt.Errorf("%w: more than %d fields", errFormat, maxFields)
	}
	return t, nil
}

func fieldOf(place []int) (Field, error) {
	if len(place) != 2 && len(place) != 4 {
		return Field{}, fmt.Errorf("%v is not [offset, size] or [offset, size, bit, bits]", place)
	}
	for _, n := range place {
		if n < 0 || n > maxStruct {
			return Field{}, fmt.Errorf("%d is beyond %d", n, maxStruct)
		}
	}
	f := Field{Offset: place[0], Size: place[1]}
	if len(place) == 4 {
		f.BitOffset, f.BitSize = place[2], place[3]
		if f.BitSize == 0 || f.BitOffset+f.BitSize > 64 {
			return Field{}, fmt.Errorf("bits %d+%d are none of a word", f.BitOffset, f.BitSize)
		}
	}
	return f, nil
}
