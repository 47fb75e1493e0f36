// Package servertest starts real servers for tests and benchmarks: PostgreSQL, and a Rails application on a Puma
// cluster that uses it. All of them are Debian packages. If a package is missing, the test is skipped, and the skip
// names the package.
package servertest
