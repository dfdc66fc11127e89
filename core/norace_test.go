//go:build !race

package core

const underRace = false
