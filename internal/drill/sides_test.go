package drill

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/testhost"
)

// side is a release of the example app.
type side struct{ name, program string }

// build builds the older side from history, and two newer ones from this tree: both have a migration more, and seal what they
// record. newer has another version of the command hash, too, by which the older one knows its records.
func build(t *testing.T) (older, newer, sealer side) {
	root := git(t, ".", "rev-parse", "--show-toplevel")
	commit := olderCommit(t, root)
	t.Logf("the older side: %s", git(t, root, "log", "-1", "--format=%h %ci %s", commit))
	tree := filepath.Join(t.TempDir(), "older")
	git(t, root, "clone", "--quiet", "--shared", "--no-checkout", root, tree)
	git(t, tree, "checkout", "--quiet", "--detach", commit)
	all := append(slices.Clone(hash), seal)
	return side{"older", compile(t, tree)}, side{"newer", compile(t, root, "-overlay", overlay(t, root, all))},
		side{"sealing", compile(t, root, "-overlay", overlay(t, root, []edit{seal}))}
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

// edit replaces a text of a file, which is there once.
type edit struct{ file, old, new string }

// hash is another version of the command hash.
var hash = []edit{
	{"core/internal/command/command.go", "const Version int16 = 1\n", "const Version int16 = 2\n"},
	{"core/internal/command/command.go", "\tcase 1:\n",
		"\tcase 2:\n\t\tone := c.hashV1()\n\t\treturn store.CommandHash{Version: 2, Sum: sha256.Sum256(one[:])}, nil\n\tcase 1:\n"},
}

// seal switches sealing on, with a key that the older side does not have.
var seal = edit{"examples/internal/app/app.go", "gormstore.New(a.DB, ", "gormstore.New(a.DB, sealed(), "}

// overlay makes this tree newer than itself: for the file that it returns, go build takes the edits and what testdata/newer has.
func overlay(t *testing.T, root string, edits []edit) string {
	dir, texts, replaced := t.TempDir(), map[string]string{}, map[string]string{}
	for _, e := range edits {
		text, ok := texts[e.file]
		if !ok {
			read, err := os.ReadFile(filepath.Join(root, e.file))
			require.NoError(t, err)
			text = string(read)
		}
		require.Equal(t, 1, strings.Count(text, e.old), "say here how the newer side gets another %s now", e.file)
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	for file, text := range texts {
		edited := filepath.Join(dir, filepath.Base(file))
		require.NoError(t, os.WriteFile(edited, []byte(text), 0o600))
		replaced[filepath.Join(root, file)] = edited
	}
	for file, in := range map[string]string{"9999_newer.up.sql": "gormstore/migrations/postgres", "sealed.go": "examples/internal/app"} {
		replaced[filepath.Join(root, in, file)] = filepath.Join(root, "internal", "drill", "testdata", "newer", file)
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, list, 0o600))
	return file
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
