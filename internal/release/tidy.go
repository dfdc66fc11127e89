package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// tidy runs "go mod tidy" in every module. It works before the required versions of the other modules are published,
// because it looks them up in the tree. With diff it changes nothing, and what is untidy is an error.
func (t *tree) tidy(ctx context.Context, diff bool) error {
	var errs []error
	for _, m := range t.modules {
		if err := t.tidyModule(ctx, m, diff); err != nil {
			errs = append(errs, fmt.Errorf("%s/go.mod is not tidy (go run ./internal/release -tidy): %w", m.directory, err))
		}
	}
	return errors.Join(errs...)
}

// tidyModule tidies a copy of the module's go.mod in which the tree replaces the other modules.
func (t *tree) tidyModule(ctx context.Context, m member, diff bool) error {
	temporary, err := os.MkdirTemp("", "idem-tidy-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	directory := filepath.Join(t.directory, m.directory)
	goMod, goSum := filepath.Join(directory, "go.mod"), filepath.Join(directory, "go.sum")
	copyMod, copySum := filepath.Join(temporary, "go.mod"), filepath.Join(temporary, "go.sum")
	if err := copyFile(copyMod, goMod); err != nil {
		return err
	}
	if err := copyFile(copySum, goSum); err != nil {
		return err
	}
	if err := rewrite(copyMod, func(f *modfile.File) error {
		var errs []error
		for _, other := range t.modules {
			if other.path() != m.path() {
				errs = append(errs, f.AddReplace(other.path(), "", filepath.Join(t.directory, other.directory), ""))
			}
		}
		return errors.Join(errs...)
	}); err != nil {
		return err
	}
	arguments := []string{"mod", "tidy", "-modfile=" + copyMod}
	if diff {
		arguments = append(arguments, "-diff")
	}
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = directory
	command.Env = append(os.Environ(), "GOWORK=off")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil || diff {
		return err
	}
	if err := rewrite(copyMod, func(f *modfile.File) error {
		var errs []error
		for _, other := range t.modules {
			errs = append(errs, f.DropReplace(other.path(), ""))
		}
		return errors.Join(errs...)
	}); err != nil {
		return err
	}
	return errors.Join(copyFile(goMod, copyMod), copyFile(goSum, copySum))
}

// rewrite changes a go.mod.
func rewrite(file string, change func(*modfile.File) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := modfile.Parse(file, text, nil)
	if err != nil {
		return err
	}
	if err := change(parsed); err != nil {
		return err
	}
	parsed.Cleanup()
	text, err = parsed.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.TrimRight(string(text), "\n")+"\n"), 0o644)
}

// copyFile copies a file; a source that is not there counts as empty, and no empty file is made.
func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(text) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
