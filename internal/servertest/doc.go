// Package servertest starts real servers for tests and benchmarks, such as PostgreSQL. It also starts a Rails
// application that uses PostgreSQL and runs on a Puma cluster. The servers and Rails are Debian packages. If a package
// is missing, the test is skipped, and the message names the package.
package servertest
