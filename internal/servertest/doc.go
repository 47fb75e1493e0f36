// Package servertest starts real servers for tests and benchmarks, such as PostgreSQL, and a Rails application that
// uses it on a Puma cluster. All of them are Debian packages. If a package is missing, the test is skipped, and the
// message names the package.
package servertest
