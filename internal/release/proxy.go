package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// makeProxy writes the tree's importable modules into a directory, in the layout of a module proxy ("go help goproxy").
// They are made from the commit, as the go command makes them from a tag.
func (t *tree) makeProxy(ctx context.Context, directory, commit, version string) error {
	for _, m := range t.modules {
		if !m.importable() {
			continue
		}
		if err := t.publish(ctx, directory, commit, module.Version{Path: m.path(), Version: version}, m); err != nil {
			return fmt.Errorf("%s: %w", m.path(), err)
		}
	}
	return nil
}

func (t *tree) publish(ctx context.Context, directory, commit string, v module.Version, m member) error {
	versions := filepath.Join(directory, filepath.FromSlash(v.Path), "@v")
	if err := os.MkdirAll(versions, 0o750); err != nil {
		return err
	}
	date, err := output(ctx, t.directory, "git", "show", "-s", "--format=%cI", commit)
	if err != nil {
		return err
	}
	goMod, err := output(ctx, t.directory, "git", "show", commit+":"+filepath.ToSlash(filepath.Join(m.directory, "go.mod")))
	if err != nil {
		return err
	}
	if modfile.ModulePath([]byte(goMod)) != v.Path {
		return errors.New("the commit's go.mod has another path: commit it first")
	}
	for name, text := range map[string]string{
		"list":              v.Version + "\n",
		v.Version + ".info": fmt.Sprintf("{%q:%q,%q:%q}\n", "Version", v.Version, "Time", date),
		v.Version + ".mod":  goMod + "\n",
	} {
		if err := os.WriteFile(filepath.Join(versions, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	file, err := os.Create(filepath.Join(versions, v.Version+".zip"))
	if err != nil {
		return err
	}
	subdirectory := filepath.ToSlash(m.directory)
	if subdirectory == "." {
		subdirectory = ""
	}
	return errors.Join(zip.CreateFromVCS(file, v, t.directory, commit, subdirectory), file.Close())
}

// commit is what would be tagged: HEAD, with the changes of tracked files that are not committed yet.
func (t *tree) commit(ctx context.Context) (string, error) {
	commit, err := output(ctx, t.directory, "git", "stash", "create")
	if err != nil || commit != "" {
		return commit, err
	}
	return output(ctx, t.directory, "git", "rev-parse", "HEAD")
}
