package gvl

import "strings"

// AddLine returns the name of code and its place ("reports.rb:41") for a text. The label of a template already names
// its file. So for a template, AddLine appends the line to the label and returns an empty place:
// "orders/_row.html.erb:4".
func AddLine(code, place string) (string, string) {
	label, rest := code, ""
	if i := strings.Index(code, " → "); i >= 0 {
		label, rest = code[:i], code[i:]
	}
	template := label[strings.LastIndexByte(label, ' ')+1:]
	file, line := place, ""
	if i := strings.LastIndexByte(place, ':'); i >= 0 {
		file, line = place[:i], place[i:]
	}
	if file == "" || !strings.Contains(template, "/") {
		return code, place
	}
	if !strings.HasSuffix("/"+file, "/"+template) && !strings.HasSuffix(template, "/"+file) {
		return code, place
	}
	if line != ":0" {
		label += line
	}
	return label + rest, ""
}
