package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// tree is the working tree with its modules.
type tree struct {
	directory string
	work      *modfile.WorkFile // go.work, which joins the modules here
	modules   []member
}

// member is one module of the tree.
type member struct {
	directory string // relative to the tree's, "." for the library itself
	file      *modfile.File
}

func (m *member) path() string { return m.file.Module.Mod.Path }

// importable tells whether users can import the module: then it gets a tag of its own, and its versions are published.
func (m *member) importable() bool {
	return !slices.Contains(strings.Split(m.path(), "/"), "internal") && !strings.HasPrefix(m.directory, "examples")
}

// openTree reads the tree of the working directory.
func openTree(ctx context.Context) (*tree, error) {
	work, err := output(ctx, "", "go", "env", "GOWORK")
	if err != nil {
		return nil, err
	}
	if work == "" || work == "off" {
		return nil, errors.New("there is no go.work: run it in the project's directory, without GOWORK=off")
	}
	return readTree(work)
}

// readTree reads a go.work and the go.mod of every module that it names.
func readTree(work string) (*tree, error) {
	text, err := os.ReadFile(work)
	if err != nil {
		return nil, err
	}
	t := &tree{directory: filepath.Dir(work)}
	if t.work, err = modfile.ParseWork(work, text, nil); err != nil {
		return nil, err
	}
	for _, use := range t.work.Use {
		file := filepath.Join(t.directory, use.Path, "go.mod")
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parsed, err := modfile.Parse(file, text, nil)
		if err != nil {
			return nil, err
		}
		t.modules = append(t.modules, member{filepath.Clean(use.Path), parsed})
	}
	return t, nil
}

// version is the one version that all modules require of each other. What they must not have is an error: another
// version, or a replace, which would not count for those who install the module.
func (t *tree) version() (string, error) {
	var version string
	var errs []error
	for _, m := range t.modules {
		for _, r := range m.file.Replace {
			errs = append(errs, fmt.Errorf("%s/go.mod replaces %s: go.work does that", m.directory, r.Old.Path))
		}
		for _, r := range m.file.Require {
			if r.Mod.Path == root && version == "" {
				version = r.Mod.Version
			}
			if ours(r.Mod.Path) && r.Mod.Version != versionOf(r.Mod.Path, version) {
				errs = append(errs, fmt.Errorf("%s/go.mod requires %s, others %s", m.directory, r.Mod, version))
			}
		}
	}
	for _, r := range t.work.Replace {
		if r.Old.Version != versionOf(r.Old.Path, version) {
			errs = append(errs, fmt.Errorf("go.work replaces %s, the modules require %s", r.Old, version))
		}
	}
	return version, errors.Join(errs...)
}

// setVersion writes the version into every go.mod and go.work.
func (t *tree) setVersion(version string) error {
	if semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version like v0.2.0", version)
	}
	for _, m := range t.modules {
		for _, r := range slices.Clone(m.file.Require) {
			if ours(r.Mod.Path) {
				if err := m.file.AddRequire(r.Mod.Path, versionOf(r.Mod.Path, version)); err != nil {
					return err
				}
			}
		}
		text, err := m.file.Format()
		if err == nil {
			err = os.WriteFile(filepath.Join(t.directory, m.directory, "go.mod"), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	for _, r := range t.work.Replace { // in place, which keeps the comments
		for i, token := range r.Syntax.Token {
			if token == r.Old.Version {
				r.Syntax.Token[i] = versionOf(r.Old.Path, version)
			}
		}
	}
	return os.WriteFile(filepath.Join(t.directory, "go.work"), modfile.Format(t.work.Syntax), 0o644)
}

// versionOf returns the version of a module in a release. A path that ends with /v5 needs a version v5: v0.1.2 is v5.1.2
// there, and v1.2.3 is v5.102.3.
func versionOf(path, release string) string {
	_, major, ok := module.SplitPathVersion(path)
	if !ok || major == "" {
		return release
	}
	var x, y int
	var rest string
	if _, err := fmt.Sscanf(release, "v%d.%d.%s", &x, &y, &rest); err != nil {
		return release
	}
	return fmt.Sprintf("%s.%d.%s", strings.TrimPrefix(major, "/"), 100*x+y, rest)
}

// ours tells whether a module is one of the tree's.
func ours(path string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// output runs a command and returns what it prints, without the spaces around it.
func output(ctx context.Context, directory, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = directory
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}
