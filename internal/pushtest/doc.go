// Package pushtest tests package push with the programs that receive profiles, such as Datadog's agent. It is a Go
// module of its own, because otherwise ddtop would depend on the modules of these programs.
package pushtest
