package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/module"
)

// tagOf is the tag of a module in a release.
func tagOf(path, release string) string {
	directory, _, _ := module.SplitPathVersion(path)
	return strings.TrimPrefix(strings.TrimPrefix(directory, root)+"/", "/") + versionOf(path, release)
}

// tag makes a clone with the commit of a release and all its tags, and prints what to push. Nothing is pushed, and the tree
// stays as it is.
func (t *tree) tag(ctx context.Context, version, clone string) error {
	if clone == "" {
		return errors.New("-into: name a directory that does not exist: the clone with the tags")
	}
	if _, err := os.Stat(clone); err == nil {
		return fmt.Errorf("-into: %s exists: name another directory", clone)
	}
	changed, err := output(ctx, t.directory, "git", "status", "--porcelain")
	if err == nil && changed != "" {
		err = errors.New("commit first: what is not committed would not be tagged")
	}
	if err != nil {
		return err
	}
	git := func(arguments ...string) error {
		_, err := output(ctx, clone, "git", arguments...)
		return err
	}
	if _, err := output(ctx, t.directory, "git", "clone", "-q", t.directory, clone); err != nil {
		return err
	}
	made, err := readTree(filepath.Join(clone, "go.work"))
	if err == nil {
		err = made.setVersion(version)
	}
	if err == nil {
		err = made.release(version, time.Now())
	}
	if err == nil {
		err = git("commit", "-q", "--allow-empty", "-a", "-m", "release "+version)
	}
	if err != nil {
		return err
	}
	branch, err := output(ctx, clone, "git", "branch", "--show-current")
	if err != nil {
		return err
	}
	first, others := version, []string{}
	for _, m := range made.modules {
		if !m.importable() {
			continue
		}
		name := tagOf(m.path(), version)
		if err := git("tag", "-a", name, "-m", name); err != nil {
			return err
		}
		if name != first {
			others = append(others, name)
		}
	}
	fmt.Printf("The commit and the tags of %s are in %s. Look at them, and push, the library first: the others require it.\n\n"+
		"\tcd %[2]s\n\tgo run ./internal/release -check\n\tgit remote set-url origin YOUR-REPOSITORY\n"+
		"\tgit push origin %s %s\n\tgit push origin %s\n", version, clone, branch, first, strings.Join(others, " "))
	return nil
}

// switched is a part of a page that the first release replaces.
var switched = regexp.MustCompile(`(?s)<!-- until the first release -->\n.*?<!-- from the first release on\n(.*?)-->\n`)

// pages have such parts.
var pages = []string{"README.md", "docs/idemctl.md", "core/idemvet/README.md"}

// release turns the switch of the pages, and writes the date into the changelog.
func (t *tree) release(version string, at time.Time) error {
	for _, page := range pages {
		if err := t.edit(page, func(text string) (string, error) {
			return switched.ReplaceAllString(text, "$1"), nil
		}); err != nil {
			return err
		}
	}
	return t.edit("CHANGELOG.md", func(text string) (string, error) {
		head := "## [" + strings.TrimPrefix(version, "v") + "] - "
		if !strings.Contains(text, "\n"+head) {
			return "", fmt.Errorf("CHANGELOG.md has no section %q: write it, with what a user sees", head+"not tagged yet")
		}
		return strings.Replace(text, head+"not tagged yet", head+at.UTC().Format(time.DateOnly), 1), nil
	})
}

func (t *tree) edit(page string, change func(text string) (string, error)) error {
	file := filepath.Join(t.directory, page)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := change(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}
