package drill

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/testhost"
)

// side is a release of the example app.
type side struct {
	name, program string
	env           []string
}

// build builds the older side from history, and the newer one from this tree.
func build(t *testing.T) (older, newer side) {
	root := git(t, ".", "rev-parse", "--show-toplevel")
	commit := olderCommit(t, root)
	t.Logf("the older side: %s", git(t, root, "log", "-1", "--format=%h %ci %s", commit))
	tree := filepath.Join(t.TempDir(), "older")
	git(t, root, "clone", "--quiet", "--shared", "--no-checkout", root, tree)
	git(t, tree, "checkout", "--quiet", "--detach", commit)
	// Sealed answers will be switched on here, in env of the newer side.
	return side{name: "older", program: compile(t, tree)}, side{name: "newer", program: compile(t, root, "-overlay", overlay(t, root))}
}

// olderCommit is the last release. Before the first one it is the commit behind which no migration has changed, and nothing that
// since.txt knows. A migration that is added changes nothing: the older side has to live with it.
func olderCommit(t testing.TB, root string) string {
	if git(t, root, "rev-parse", "--is-shallow-repository") == "true" {
		t.Fatal("this is a shallow clone, without the older side of the upgrade: git fetch --unshallow --tags")
	}
	if tag := git(t, root, "tag", "--list", "v*", "--merged", "HEAD^", "--sort=-version:refname"); tag != "" {
		return strings.Fields(tag)[0]
	}
	since := git(t, root, "log", "-1", "--format=%H", "--", "internal/drill/since.txt")
	changed := git(t, root, "log", "-1", "--format=%H", "--diff-filter=MD", "--no-renames", since+"..HEAD", "--", "gormstore/migrations")
	if changed != "" {
		return changed
	}
	return since
}

// overlay makes this tree newer than itself: for the file that it returns, go build takes another version of the command hash,
// and one more migration.
func overlay(t *testing.T, root string) string {
	file := filepath.Join(root, "core", "internal", "command", "command.go")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	hash := string(text)
	for _, edit := range [][2]string{
		{"const Version int16 = 1\n", "const Version int16 = 2\n"},
		{"\tcase 1:\n", "\tcase 2:\n\t\tone := c.hashV1()\n\t\treturn store.CommandHash{Version: 2, Sum: sha256.Sum256(one[:])}, nil\n\tcase 1:\n"},
	} {
		require.Equal(t, 1, strings.Count(hash, edit[0]), "say here how %s gets a second version now", file)
		hash = strings.Replace(hash, edit[0], edit[1], 1)
	}
	dir := t.TempDir()
	newHash := filepath.Join(dir, "command.go")
	require.NoError(t, os.WriteFile(newHash, []byte(hash), 0o600))
	const migration = "9999_newer.up.sql"
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{
		file: newHash,
		filepath.Join(root, "gormstore", "migrations", "postgres", migration): filepath.Join(root, "internal", "drill", "testdata", "newer", migration),
	}})
	require.NoError(t, err)
	replaced := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(replaced, list, 0o600))
	return replaced
}

// compile builds the example app of a tree.
func compile(t *testing.T, tree string, flags ...string) string {
	program := filepath.Join(t.TempDir(), "app")
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", program}, flags...), "./examples/gin")...)
	cmd.Dir = tree
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return program
}

// git trusts every repository, also those of others.
func git(t testing.TB, dir string, arguments ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "safe.directory=*"}, arguments...)...)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

// The older side stays what it is when a migration is added, and moves on when one is changed, when since.txt is, and with each
// release. Without history there is none.
func TestOlderSide(t *testing.T) {
	root := t.TempDir()
	git(t, root, "init", "--quiet")
	commit := func(files ...string) string {
		for _, file := range files {
			file = filepath.Join(root, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			require.NoError(t, err)
			_, err = f.WriteString("changed\n")
			require.NoError(t, errors.Join(err, f.Close()))
		}
		git(t, root, "add", "--all")
		git(t, root, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "--message", "m")
		return git(t, root, "rev-parse", "HEAD")
	}
	const since, first, second = "internal/drill/since.txt", "gormstore/migrations/0001.sql", "gormstore/migrations/0002.sql"
	commit(first)
	begun := commit(since)
	require.Equal(t, begun, olderCommit(t, root))
	commit(second)
	commit("other.go")
	require.Equal(t, begun, olderCommit(t, root), "a migration was added")
	changed := commit(first)
	commit("other.go")
	require.Equal(t, changed, olderCommit(t, root))
	again := commit(since)
	require.Equal(t, again, olderCommit(t, root))
	git(t, root, "tag", "v0.1.0")
	require.Equal(t, again, olderCommit(t, root), "the release itself is upgraded from what was before")
	commit("other.go")
	require.Equal(t, "v0.1.0", olderCommit(t, root))
	commit("other.go")
	git(t, root, "tag", "v0.10.0", "HEAD^")
	require.Equal(t, "v0.10.0", olderCommit(t, root))

	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, root, "clone", "--quiet", "--depth=1", "file://"+root, shallow)
	require.ErrorContains(t, testhost.Run(t.Context(), "upgrade", func(t testing.TB) { olderCommit(t, shallow) }), "shallow clone")
}
