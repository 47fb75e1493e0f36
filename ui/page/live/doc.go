// Package live is the first view: timeline and flamegraph together: what is selected in the timeline is what the flamegraph shows.
package live
