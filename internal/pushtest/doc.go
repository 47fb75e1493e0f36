// Package pushtest tests package push with the real programs that receive profiles, such as Datadog's agent. It is a Go
// module of its own, so that ddtop does not depend on the modules of these programs.
package pushtest
