// Package sampler has the types that all of ddtop shares. A Sample is one reading of a process, and a Dictionary has
// the entries that its IDs refer to. A Source produces samples. Of ddtop's packages it imports only sampler/intern. A
// live process, a core file and a recording produce the same kind of samples. So the code that uses samples need not
// know where they come from.
//
// A Sample has no conclusions. It has only what was read from the target's memory and from the kernel. Package gvl
// concludes the states of threads from it. So a better rule in gvl also improves the results for old recordings.
package sampler
