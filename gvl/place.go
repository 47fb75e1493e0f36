package gvl

import "strings"

// AddLine returns the name of code and its place ("reports.rb:41") in the form for a text. The name of a template
// already contains its file ("orders/_row.html.erb"). So for a template, AddLine appends the line to the name
// ("orders/_row.html.erb:4") and returns an empty place.
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
