package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One command makes the commit of a release and all its tags, in a clone. The tree stays as it is.
func TestTag(t *testing.T) {
	made := newTree(t, "require "+root+" v0.1.0")
	for page, text := range map[string]string{
		"README.md":       "a\n<!-- until the first release -->\nclone it\n<!-- from the first release on\ngo get it\n-->\nb\n",
		"CHANGELOG.md":    "# Changelog\n\n## [0.2.0] - not tagged yet\n",
		"docs/idemctl.md": "x\n", "core/idemvet/README.md": "y\n",
	} {
		require.NoError(t, put(text, page))
	}
	git := func(directory string, arguments ...string) string {
		t.Helper()
		text, err := output(t.Context(), directory, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, arguments...)...)
		require.NoError(t, err)
		return text
	}
	for name, value := range map[string]string{"AUTHOR_NAME": "a", "AUTHOR_EMAIL": "a@example.com", "COMMITTER_NAME": "a", "COMMITTER_EMAIL": "a@example.com"} {
		t.Setenv("GIT_"+name, value)
	}
	git("", "init", "-q", "-b", "main")
	clone := filepath.Join(t.TempDir(), "clone")
	require.ErrorContains(t, made.tag(t.Context(), "v0.2.0", clone), "commit first")
	git("", "add", "-A")
	git("", "commit", "-qm", "first")
	require.ErrorContains(t, made.tag(t.Context(), "v0.2.0", ""), "-into")
	require.ErrorContains(t, made.tag(t.Context(), "v0.2.0", t.TempDir()), "exists")
	require.ErrorContains(t, made.tag(t.Context(), "v0.3.0", filepath.Join(t.TempDir(), "c")), "CHANGELOG.md has no section")
	require.ErrorContains(t, made.tag(t.Context(), "0.2", filepath.Join(t.TempDir(), "c")), "is no version")

	require.NoError(t, made.tag(t.Context(), "v0.2.0", clone))
	require.Equal(t, "gormstore/watermillidem/v0.2.0\nv0.2.0", git(clone, "tag", "--list"))
	require.Empty(t, git(clone, "status", "--porcelain"))
	require.Equal(t, git(clone, "rev-parse", "HEAD"), git(clone, "rev-parse", "v0.2.0^{commit}"))
	for page, want := range map[string]string{"README.md": "a\ngo get it\nb\n", "CHANGELOG.md": "## [0.2.0] - " + time.Now().UTC().Format(time.DateOnly)} {
		text, err := os.ReadFile(filepath.Join(clone, page))
		require.NoError(t, err)
		require.Contains(t, string(text), want)
	}
	tagged, err := readTree(filepath.Join(clone, "go.work"))
	require.NoError(t, err)
	version, err := tagged.version()
	require.NoError(t, err)
	require.Equal(t, "v0.2.0", version)
	require.Empty(t, git("", "tag", "--list"))
	require.Equal(t, "first", git("", "log", "--format=%s"))
}

// The table of releasing.md has every module that users import, and each page that the release changes has its switch.
func TestReleasingPage(t *testing.T) {
	tree, err := openTree(t.Context())
	require.NoError(t, err)
	version, err := tree.version()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(tree.directory, "docs/contributors/releasing.md"))
	require.NoError(t, err)
	for _, m := range tree.modules {
		if m.importable() {
			require.Contains(t, string(page), "| `"+m.path()+"` | `"+tagOf(m.path(), version)+"` |")
		}
	}
	changes, err := os.ReadFile(filepath.Join(tree.directory, "CHANGELOG.md"))
	require.NoError(t, err)
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(tree.directory, page))
		require.NoError(t, err)
		require.Equal(t, bytes.Contains(changes, []byte("[0.1.0] - not tagged yet")), switched.Match(text), page)
	}
}
