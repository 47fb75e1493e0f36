// Package demosource is a made-up target for tests of the screen: an "order service" of some threads. They run under a
// small simulation of Ruby's scheduler, with one GVL, a queue (first in, first out), and a time slice of 100 ms. It
// emits the same samples as a real reader would. The same options always give the same samples, so that tests can
// compare pictures of the screen. No command of ddtop offers it. Users only see processes and recordings.
package demosource
