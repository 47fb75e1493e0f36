package sampler

import "strings"

const (
	// viewsFolder is the folder in which a Rails application or engine has its templates. Rails compiles a template to
	// a method whose name contains the folder. viewsInName is the folder as it appears in such a name:
	// ActionView::Base#_app_views_orders__row_html_erb___1844674407370955161_23420.
	viewsFolder = "app/views/"
	viewsInName = "_app_views_"
)

// templateLabel returns a readable label for a frame of a Rails template. Rails compiles a template to a method with a
// long name. The label has the template's file instead: "orders/_row.html.erb", "block in orders/_row.html.erb".
func templateLabel(label, path string) string {
	if !strings.Contains(label, viewsInName) {
		return label
	}
	_, file, ok := strings.Cut(path, viewsFolder)
	if !ok || file == "" {
		return label
	}
	before := ""
	if i := strings.LastIndex(label, " in "); i >= 0 && i < strings.Index(label, viewsInName) {
		before = label[:i+len(" in ")]
	}
	name := label[strings.LastIndexAny(label, "#. ")+1:]
	if !strings.HasPrefix(name, "_") || !strings.Contains(name, viewsInName) || strings.Trim(name[strings.LastIndex(name, "_")+1:], "0123456789") != "" {
		return label
	}
	return before + file
}
