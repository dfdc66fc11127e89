//go:build !race

package gormstore_test

// flooders is how many requests come at once.
const flooders = 10_000
