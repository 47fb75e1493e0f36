// Package fair divides a limited number of places among the processes of several users. A process needs a place to be
// sampled.
package fair

import (
	"maps"
	"slices"
)

// Turns returns the processes in list in the order in which they should get places. Processes of the users with the
// fewest places come first. taken has the number of each user's places. For each process in list, Turns adds one to
// this number.
func Turns[P any](list []P, userOf func(P) int, taken map[int]int) []P {
	type turn struct {
		p P
		n int
	}
	turns := make([]turn, len(list))
	for i, p := range list {
		user := userOf(p)
		turns[i] = turn{p, taken[user]}
		taken[user]++
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return a.n - b.n })
	out := make([]P, len(turns))
	for i, t := range turns {
		out[i] = t.p
	}
	return out
}

// Leaving returns the processes in held that must give up their places to processes in wanting. Each is the oldest
// process of the user with the most places, and its place goes to a user with fewer. byTime orders processes by the
// time when they got their places. taken has the number of each user's places. free is the number of places that no
// process has. Leaving sorts held.
func Leaving[P any](wanting, held []P, userOf func(P) int, byTime func(a, b P) int, taken map[int]int, free int) (leaving []P) {
	slices.SortStableFunc(held, byTime)
	taken = maps.Clone(taken)
	for _, p := range Turns(wanting, userOf, maps.Clone(taken)) {
		user := userOf(p)
		if free > 0 {
			free--
			taken[user]++
			continue
		}
		most := -1
		for i, h := range held {
			if most < 0 || taken[userOf(h)] > taken[userOf(held[most])] {
				most = i
			}
		}
		if most < 0 || taken[user]+1 >= taken[userOf(held[most])] {
			continue
		}
		taken[userOf(held[most])]--
		taken[user]++
		leaving = append(leaving, held[most])
		held = slices.Delete(held, most, most+1)
	}
	return leaving
}
