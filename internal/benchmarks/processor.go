package main

import (
	"fmt"
	"time"
)

// processorTime is how long processors have worked, on all cores together. Unlike throughput it does not depend much on how
// busy the machine is otherwise.
type processorTime struct {
	app    time.Duration         // this process; 0: not known here
	server map[int]time.Duration // PostgreSQL's processes by their ids; empty: it runs elsewhere
}

// since returns what was spent after an earlier reading. A server's process that has ended in between is left out.
func (now processorTime) since(before processorTime) (app, server time.Duration) {
	for pid, spent := range now.server {
		server += spent - before.server[pid]
	}
	return now.app - before.app, server
}

// processor writes what a job costs, app + server, in microseconds; "" where it is not known.
func (t turn) processor() string {
	if t.app == 0 {
		return ""
	}
	each := func(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()*1e6/float64(t.jobs)) }
	if server := each(t.server); server != "0" {
		return " (" + each(t.app) + " + " + server + ")"
	}
	return " (" + each(t.app) + ")"
}
