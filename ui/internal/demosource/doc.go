// Package demosource is a made-up target for tests of the screen: an "order service" of some threads. They run under a
// small simulation of Ruby's scheduler, with one GVL, a queue first in first out, and a time slice of 100 ms. It emits
// the evidence that a real reader would. With the same options it is always the same. So pictures of the screen can be
// compared.
// No command of ddtop offers it: what a person sees always comes from a process or a recording.
package demosource
