package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// newTree makes a library with a nested module that users import and one that they do not.
func newTree(t *testing.T, nested string) *tree {
	t.Helper()
	t.Chdir(t.TempDir())
	for file, text := range map[string]string{
		"go.work":                        "go 1.26\n\nuse (\n\t.\n\t./gormstore/watermillidem\n\t./internal/tool\n)\n\nreplace " + root + " v0.1.0 => .\n",
		"go.mod":                         "module " + root + "\n\ngo 1.26\n",
		"gormstore/watermillidem/go.mod": "module " + root + "/gormstore/watermillidem\n\ngo 1.26\n\n" + nested + "\n",
		"internal/tool/go.mod":           "module " + root + "/internal/tool\n\ngo 1.26\n\nrequire " + root + " v0.1.0\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	opened, err := openTree(t.Context())
	require.NoError(t, err)
	return opened
}

func TestVersion(t *testing.T) {
	version, err := newTree(t, "require "+root+" v0.1.0").version()
	require.NoError(t, err)
	require.Equal(t, "v0.1.0", version)

	_, err = newTree(t, "require "+root+" v0.2.0").version()
	require.ErrorContains(t, err, "requires github.com/auth19/idem@v0.")

	_, err = newTree(t, "require "+root+" v0.1.0\n\nreplace "+root+" => ../..").version()
	require.ErrorContains(t, err, "gormstore/watermillidem/go.mod replaces github.com/auth19/idem")
}

func TestSetVersion(t *testing.T) {
	require.NoError(t, newTree(t, "require "+root+" v0.1.0").setVersion("v0.2.0"))
	again, err := openTree(t.Context())
	require.NoError(t, err)
	version, err := again.version()
	require.NoError(t, err)
	require.Equal(t, "v0.2.0", version, "in every go.mod and in go.work")
	require.Len(t, again.work.Replace, 1)

	require.ErrorContains(t, again.setVersion("0.3"), "is no version")
}

func TestImportable(t *testing.T) {
	var importable []string
	for _, m := range newTree(t, "").modules {
		if m.importable() {
			importable = append(importable, m.path())
		}
	}
	require.Equal(t, []string{root, root + "/gormstore/watermillidem"}, importable)
}

// What only the example apps and the tests of other modules need is no requirement of those who use the library.
func TestRequirementsOfTheLibrary(t *testing.T) {
	tree, err := openTree(t.Context())
	require.NoError(t, err)
	require.Equal(t, root, tree.modules[0].path())
	for _, r := range tree.modules[0].file.Require {
		for _, other := range []string{"mysql", "porcupine", "keyfunc", "jwkset"} {
			require.NotContains(t, r.Mod.Path, other)
		}
	}
}

func TestInstalls(t *testing.T) {
	made := newTree(t, "")
	_, err := made.installs()
	require.Error(t, err, "there is no README")
	require.NoError(t, os.WriteFile("README.md", []byte("```\ngo mod edit -require "+root+"@v0.1.0   # core\ngo mod tidy\n```\n"), 0o600))
	commands, err := made.installs()
	require.NoError(t, err)
	require.Equal(t, [][]string{{"go", "mod", "edit", "-require", root + "@v0.1.0"}}, commands)
}

func TestVersionOf(t *testing.T) {
	for release, want := range map[string]string{"v0.1.0": "v5.1.0", "v0.12.3": "v5.12.3", "v1.0.0": "v5.100.0",
		"v1.2.3-rc.1": "v5.102.3-rc.1", "": ""} {
		require.Equal(t, want, versionOf(root+"/echoidem/v5", release))
		require.Equal(t, release, versionOf(root+"/gormstore/watermillidem", release))
	}
}
