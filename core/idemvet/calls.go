package main

import (
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// stripe is the client that is known without being named.
const stripe = "github.com/stripe/stripe-go"

// sends are the functions of net/http that send a request.
var sends = []string{"Get", "Head", "Post", "PostForm", "Do", "RoundTrip"}

// offline are functions of a client that send nothing, though they may fail.
var offline = regexp.MustCompile(`^(Construct|Parse|Unmarshal|Marshal|Decode|Encode|Validate|Verify|Sign|Must|New\w*Client)`)

// calls reports a call of another service outside of core.Call.
func (a *activation) calls(site ssa.CallInstruction, f *types.Func, args []value, mode mode) {
	if !a.writes || mode&inCall != 0 || !slices.ContainsFunc(a.foreignOf(site, f, args), a.isCall) {
		return
	}
	how := " calls another service outside of core.Call"
	if mode&inGoroutine != 0 {
		how = " in a goroutine calls another service"
	}
	a.report(site, "straycall", f.Name()+how+": that is not undone with the attempt, and the next attempt calls again. Use "+
		"core.Call on a Resume route, or an outbox")
}

// foreignOf are the functions of other modules that a call may reach.
func (a *activation) foreignOf(site ssa.CallInstruction, f *types.Func, args []value) (all []*types.Func) {
	if f != nil {
		all = append(all, f)
	}
	if !site.Common().IsInvoke() {
		return all
	}
	for _, t := range args[0].types {
		if method := a.ssa.MethodSets.MethodSet(t).Lookup(f.Pkg(), f.Name()); method != nil {
			all = append(all, method.Obj().(*types.Func))
		}
	}
	if node := a.graph.Nodes[site.Parent()]; node != nil && args[0].open {
		for _, edge := range node.Out {
			if to, ok := edge.Callee.Func.Object().(*types.Func); ok && edge.Site == site {
				all = append(all, to)
			}
		}
	}
	return all
}

// isCall reports whether a function calls another service.
func (p *program) isCall(f *types.Func) bool {
	results := f.Signature().Results()
	switch {
	case f.Pkg() == nil || p.ofApp(f.Pkg()) && !takesRequest(f):
		return false
	case has(results, httpPath, "Response") && (f.Pkg().Path() == httpPath || takesRequest(f)):
		return slices.Contains(sends, f.Name()) || f.Pkg().Path() != httpPath
	}
	return slices.ContainsFunc(append([]string{stripe}, p.clients...), func(path string) bool {
		return f.Pkg().Path() == path || strings.HasPrefix(f.Pkg().Path(), path+"/")
	}) && mayFail(results) && !offline.MatchString(f.Name())
}

// mayFail reports whether the last of the results is an error, perhaps one of the client's own: *midtrans.Error.
func mayFail(results *types.Tuple) bool {
	if results.Len() == 0 {
		return false
	}
	err := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	return types.Implements(results.At(results.Len()-1).Type(), err)
}

func takesRequest(f *types.Func) bool { return has(f.Signature().Params(), httpPath, "Request") }
