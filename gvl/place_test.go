package gvl

import "testing"

// TestAddLine: the name of a template already contains its file. So the line is added to the name, and no place is
// shown after it. Other code keeps its place.
func TestAddLine(t *testing.T) {
	for _, x := range [][4]string{
		{"orders/_row.html.erb", "/srv/app/views/orders/_row.html.erb:4", "orders/_row.html.erb:4", ""},
		{"block in orders/_row.html.erb", "app/views/orders/_row.html.erb:4", "block in orders/_row.html.erb:4", ""},
		{"orders/_row.html.erb → Array#each", "_row.html.erb:4", "orders/_row.html.erb:4 → Array#each", ""},
		{"orders/_row.html.erb", "app/views/orders/_row.html.erb:0", "orders/_row.html.erb", ""},
		{"orders/_row.html.erb → Array#each", "row.rb:4", "orders/_row.html.erb → Array#each", "row.rb:4"},
		{"Reports#build", "app/reports.rb:41", "Reports#build", "app/reports.rb:41"},
		{"orders/_row.html.erb", "/srv/app/views/orders/_row.html.erb", "orders/_row.html.erb", ""},
		{"Kernel#sleep", "", "Kernel#sleep", ""},
	} {
		if code, place := AddLine(x[0], x[1]); code != x[2] || place != x[3] {
			t.Errorf("%q at %q is %q, %q", x[0], x[1], code, place)
		}
	}
}
