// Package export has the packages that turn what ddtop measured into what other tools and people read. It says what a thread dump and
// stat are, as text and as JSON. No package below it touches a process or the clock.
package export
