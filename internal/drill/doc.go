// Package drill upgrades the example app, and takes the upgrade back: an app built from history and one of this tree share a
// database, one after the other and side by side, killed at every point and under load. A migration and a hash version make
// this tree's app the newer one; they are in the tests alone.
package drill
