// Package export has the packages that turn measurements into what other tools and people read. It writes thread dumps
// and stat as text and as JSON. No package below it touches a process or the clock.
package export
