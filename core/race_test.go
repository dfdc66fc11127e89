//go:build race

package core

// underRace: sync.Pool drops what it is given at random, so that allocations cannot be counted.
const underRace = true
