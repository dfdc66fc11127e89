//go:build race

package gormstore_test

// flooders is how many requests come at once: the race detector follows no more than 8128 goroutines, and slows each of
// them down.
const flooders = 500
