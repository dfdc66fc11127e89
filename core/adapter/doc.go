// Package adapter has what only the adapter of a framework needs for its audit: the routes that it has found, and the guards
// in front of each. The guards themselves are methods of core.Module, and take a core.Exchange. Package httpidem is the
// shortest adapter.
package adapter
