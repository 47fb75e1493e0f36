package sampler

import (
	"maps"
	"strings"
)

// maxRoutes limits the number of patterns of paths for which a Dictionary remembers the route.
const maxRoutes = 1024

// learn remembers the route that a framework gave to a request. The parameter path is the pattern of the request's
// path, such as "GET /orders/:id". Other requests whose paths have the same pattern can then use the route. If requests
// with one pattern have two routes, other requests use neither. If the remembered name says that no route matched (see
// unserved), the first real route replaces it. The caller holds mu.
func (d *entries) learn(path, route string) {
	was, known := d.routes[path]
	switch {
	case path == "" || route == "" || route == path || known && (was == "" || was == route):
		return
	case known && !unserved(was):
		if unserved(route) {
			return
		}
		route = ""
	case !known && len(d.routes) >= maxRoutes:
		for p, r := range d.routes { // make room: scanners request many paths that do not exist, so drop these first
			if unserved(r) {
				delete(d.routes, p)
			}
		}
		if len(d.routes) >= maxRoutes {
			return
		}
	}
	d.routes[path] = route
	// A framework's route can be the same text as the pattern of a path, such as "GET /orders/:id". Then requests whose
	// pattern is this text have this route, too.
	if strings.Contains(route, " /") && !unserved(route) {
		if own, known := d.routes[route]; !known {
			d.routes[route] = route
		} else if own != route {
			d.routes[route] = ""
		}
	}
	d.renames.Add(1)
}

// unserved reports whether a request's name says that the server found no route for it, such as "404 GET /nosuch".
func unserved(name string) bool {
	status, _, _ := strings.Cut(name, " ")
	return IsStatus(status)
}

// IsStatus reports whether s has the form of an HTTP status: three digits.
func IsStatus(s string) bool { return len(s) == 3 && strings.Trim(s, "0123456789") == "" }

// Renames returns how often the result of Routes has changed.
func (d *Dictionary) Renames() uint64 { return d.renames.Load() }

// Routes returns the remembered routes, for requests whose own route is not known. A key is the method of such a
// request and the pattern of its path, such as "GET /orders/:id". The value is the route. Patterns with several routes
// are not included. Callers must not change the map.
func (d *Dictionary) Routes() map[string]string {
	now := routesOf{renames: d.Renames(), hide: d.hide.Load()}
	if now.renames == 0 {
		return nil
	}
	if last := d.routesOf.Load(); last != nil && last.renames == now.renames && last.hide == now.hide {
		return last.names
	}
	d.mu.RLock()
	known := maps.Clone(d.routes)
	d.mu.RUnlock()
	out := make(map[string]string, len(known))
	for path, route := range known {
		if route != "" && route != path {
			w := d.shown(Work{Kind: WorkRequest, Endpoint: route, Path: path})
			out[w.Path] = w.Endpoint
		}
	}
	now.names = out
	d.routesOf.Store(&now)
	return out
}

// routesOf caches the last result of Routes in the field names. The cache is valid while renames and hide are the same
// as the Dictionary's.
type routesOf struct {
	renames uint64
	hide    *Filter
	names   map[string]string
}
