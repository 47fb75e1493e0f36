// Package demosource is a made-up target for tests of the screen: an "order service" with some threads. A small
// simulation of Ruby's scheduler runs the threads. It has one GVL, a queue (first in, first out), and a time slice of
// 100 ms. The package emits samples of the same form as a reader of a real process. The same options always give the
// same samples, so that tests can compare pictures of the screen. No command of ddtop uses it: users only see real
// processes and recordings.
package demosource
