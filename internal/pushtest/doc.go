// Package pushtest tests package push against the code that takes profiles elsewhere: Datadog's agent. It is a module of its own,
// so that what it needs is none of ddtop's dependencies.
package pushtest
