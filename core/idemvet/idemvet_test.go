package main

import (
	"bytes"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	// What the packages in testdata import: go mod tidy does not look there. Echo v5 and its adapter come from the workspace.
	_ "github.com/gin-gonic/gin"
	_ "github.com/go-chi/chi/v5"
	_ "github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jmoiron/sqlx"
	_ "github.com/labstack/echo/v4"
	_ "golang.org/x/sync/errgroup"
	_ "gorm.io/gorm"

	_ "github.com/auth19/idem/core/httpidem"
	_ "github.com/auth19/idem/echoidem"
	_ "github.com/auth19/idem/ginidem"
	_ "github.com/auth19/idem/gormstore"
)

var (
	want    = regexp.MustCompile("// want `([^`]*)`")
	guarded = regexp.MustCompile(`// guarded ([A-Z?].*?)(?: //|$)`)
)

// TestChecks compares what is found in the apps of testdata with the comments there: what is wanted in a line is found there,
// and nothing else; the routes of a line are those that are guarded.
//
// CONTRACT
func TestChecks(t *testing.T) {
	wanted, mounted := map[string]string{}, map[string]string{}
	files, err := filepath.Glob("testdata/*/*.go")
	require.NoError(t, err)
	require.Len(t, files, 15)
	var packages []string
	for _, file := range files {
		packages = append(packages, "./"+filepath.Dir(file))
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, line := range strings.Split(string(source), "\n") {
			at := fmt.Sprintf("%s:%d", file, i+1)
			if found := want.FindStringSubmatch(line); found != nil {
				wanted[at] = found[1]
			}
			if found := guarded.FindStringSubmatch(line); found != nil {
				mounted[at] = found[1]
			}
		}
	}
	p, err := load("", packages)
	require.NoError(t, err)
	p.clients = []string{"github.com/google/uuid"} // for testdata/calls
	routes := p.routes()
	seen := map[string]string{}
	for _, r := range routes {
		at := p.ssa.Fset.Position(r.call.Pos())
		line := lineOf(short(at))
		seen[line] = strings.TrimPrefix(seen[line]+", "+r.String(), ", ")
	}
	for at, routes := range seen {
		assert.Equal(t, mounted[at], routes, at)
		delete(mounted, at)
	}
	assert.Empty(t, mounted, "not seen")
	for _, f := range p.check(p.table(), routes) {
		at := lineOf(short(f.at))
		assert.NotEmpty(t, wanted[at], "found, but not wanted: %s: %s", at, f)
		assert.Regexp(t, wanted[at], f.String(), at)
		delete(wanted, at)
	}
	require.Empty(t, wanted, "wanted, but not found")
}

func lineOf(position string) string { return position[:strings.LastIndex(position, ":")] }

// TestExampleApps runs the tool on the apps that users copy. They have no finding.
func TestExampleApps(t *testing.T) {
	p, err := load("../..", []string{"./examples/gin", "./examples/echo", "./examples/client", "./examples/echov5",
		"./examples/observed", "./examples/worker", "./examples/adopt/..."})
	require.NoError(t, err)
	var output bytes.Buffer
	require.Zero(t, p.vet(&output, -1), output.String())
}

// TestPartsThatDoNotCompile: what the app with the guard does not import is named, and the rest is checked.
func TestPartsThatDoNotCompile(t *testing.T) {
	const parts = "./testdata/partly/"
	old, older := parts+"old", parts+"older"
	p, err := load("", []string{parts + "app", parts + "lib", old, older})
	require.NoError(t, err)
	var output bytes.Buffer
	require.Equal(t, foundSome, p.vet(&output, -1), "a finding comes first")
	require.Contains(t, output.String(), "lib.go:8:33: straywrite: Save goes past the attempt")
	require.Contains(t, output.String(), "partly/old does not compile, and was not checked: ")
	require.Contains(t, output.String(), "undefined: lib.Gone")
	require.Contains(t, output.String(), "partly/older does not compile")

	p, err = load("", []string{"../../examples/gin", old})
	require.NoError(t, err)
	output.Reset()
	require.Equal(t, notAll, p.vet(&output, -1), output.String())
	require.Contains(t, output.String(), "findings: 0")

	for _, needed := range [][]string{{old}, {older}, {parts + "lib", old}} {
		_, err = load("", needed)
		require.ErrorContains(t, err, "the app does not compile", "%v: no main leaves it out", needed)
	}
}

// TestUnknownPart: a part of a route that is not known may be empty, and then has no slash of its own.
func TestUnknownPart(t *testing.T) {
	for pattern, same := range map[string]bool{"POST /pay": true, "POST /v1/pay": true, "POST /v1/pay/x": false,
		"PUT /pay": false} {
		assert.Equal(t, same, matches("POST /?/pay", pattern), pattern)
	}
	assert.True(t, matches("POST /v1/?", "POST /v1"))
}

// TestClients: the functions of a client that may fail call its service, but for those that send nothing.
func TestClients(t *testing.T) {
	failed := types.NewTuple(types.NewVar(0, nil, "", types.Universe.Lookup("error").Type()))
	for f, calls := range map[[2]string]bool{
		{stripe + "/v84/paymentintent", "New"}:         true,
		{stripe + "/v84", "Create"}:                    true,
		{stripe + "/v84/webhook", "ConstructEvent"}:    false,
		{stripe + "-mock", "New"}:                      false,
		{"github.com/razorpay/razorpay-go", "Capture"}: true,
		{"github.com/razorpay/razorpay", "Capture"}:    false,
		{"net/http", "NewRequest"}:                     false,
	} {
		p := &program{clients: []string{"github.com/razorpay/razorpay-go"}}
		object := types.NewFunc(0, types.NewPackage(f[0], ""), f[1], types.NewSignatureType(nil, nil, nil, nil, failed, false))
		assert.Equal(t, calls, p.isCall(object), f)
	}
}
