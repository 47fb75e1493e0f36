// Package timeline is the view with a timeline over the whole screen. A cursor in it shows what each thread did at one
// time.
package timeline
