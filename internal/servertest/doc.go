// Package servertest starts real servers for tests and benchmarks: PostgreSQL, and a Rails application on Puma's
// cluster that asks it. All of them are Debian's packages. If one is missing the test is skipped, and the skip names
// the package.
package servertest
