package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// makeProxy writes the tree's importable modules into a directory, in the layout of a module proxy ("go help goproxy").
// They are made from the commit, as the go command makes them from a tag.
func (t *tree) makeProxy(ctx context.Context, directory, commit, version string) error {
	files := directory + ".files"
	if err := t.checkOut(ctx, files, commit); err != nil {
		return err
	}
	for _, m := range t.modules {
		if !m.importable() {
			continue
		}
		published := module.Version{Path: m.path(), Version: versionOf(m.path(), version)}
		if err := t.publish(ctx, directory, files, commit, published, m); err != nil {
			return fmt.Errorf("%s: %w", m.path(), err)
		}
	}
	return nil
}

func (t *tree) publish(ctx context.Context, directory, files, commit string, v module.Version, m member) error {
	versions := filepath.Join(directory, filepath.FromSlash(v.Path), "@v")
	if err := os.MkdirAll(versions, 0o750); err != nil {
		return err
	}
	date, err := output(ctx, t.directory, "git", "show", "-s", "--format=%cI", commit)
	if err != nil {
		return err
	}
	goMod, err := os.ReadFile(filepath.Join(files, m.directory, "go.mod"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"list":              v.Version + "\n",
		v.Version + ".info": fmt.Sprintf("{%q:%q,%q:%q}\n", "Version", v.Version, "Time", date),
		v.Version + ".mod":  string(goMod),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	file, err := os.Create(filepath.Join(versions, v.Version+".zip"))
	if err != nil {
		return err
	}
	return errors.Join(zip.CreateFromDir(file, v, filepath.Join(files, m.directory)), file.Close())
}

// checkOut writes the commit's files into a directory.
func (t *tree) checkOut(ctx context.Context, directory, commit string) error {
	index := "GIT_INDEX_FILE=" + directory + ".index"
	for _, arguments := range [][]string{
		{"read-tree", commit},
		{"checkout-index", "--all", "--prefix=" + directory + "/"},
	} {
		command := exec.CommandContext(ctx, "git", arguments...)
		command.Dir, command.Env, command.Stderr = t.directory, append(os.Environ(), index), os.Stderr
		if err := command.Run(); err != nil {
			return fmt.Errorf("git %s: %w", arguments[0], err)
		}
	}
	return nil
}

// commit is what would be tagged: HEAD, with the changes of tracked files that are not committed yet.
func (t *tree) commit(ctx context.Context) (string, error) {
	commit, err := output(ctx, t.directory, "git", "stash", "create")
	if err != nil || commit != "" {
		return commit, err
	}
	return output(ctx, t.directory, "git", "rev-parse", "HEAD")
}
