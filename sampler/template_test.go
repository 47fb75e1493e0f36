package sampler

import "testing"

// TestTemplates: templateLabel names a method that Rails has compiled from a template after the template's file. Other
// methods keep their names.
func TestTemplates(t *testing.T) {
	const view = "/srv/shop/app/views/orders/_row.html.erb"
	for _, c := range []struct{ label, path, want string }{
		{"ActionView::Base#_app_views_orders__row_html_erb___1844674407370955161_23420", view, "orders/_row.html.erb"},
		{"_app_views_orders__row_html_erb___1844674407370955161_23420", view, "orders/_row.html.erb"},
		{"block (2 levels) in ActionView::Base#_app_views_orders__row_html_erb__18_60", view, "block (2 levels) in orders/_row.html.erb"},
		{"#<Class:0x00007f>#__gems_devise_____app_views_devise_new_html_erb__18_60", "/gems/devise-4.9/app/views/devise/new.html.erb", "devise/new.html.erb"},
		{"Reports#_app_views_count", view, "Reports#_app_views_count"},
		{"Orders#count_app_views_1", view, "Orders#count_app_views_1"},
		{"ActionView::Base#_app_views_orders__row_html_erb__18_60", "(eval)", "ActionView::Base#_app_views_orders__row_html_erb__18_60"},
		{"Order#total", "/srv/shop/app/models/order.rb", "Order#total"},
	} {
		d := NewDictionary()
		id := d.InternFrame(Frame{Label: c.label, Path: c.path})
		if got := d.Frame(id).Label; got != c.want {
			t.Errorf("%s: %s, want %s", c.label, got, c.want)
		}
	}
}
