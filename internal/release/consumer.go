package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// examples are copied to the consumer and run there, as a user's first program.
var examples = []string{
	"ginidem/example*_test.go", "echoidem/example*_test.go", "echoidem/v5/example_test.go", "core/httpidem/example_test.go",
	"gormstore/watermillidem/example_test.go", "core/otelidem/example_test.go",
}

// check builds a consumer that knows nothing of the tree: it installs the importable modules from a module proxy, imports
// every package, and runs the examples. Another one uses a clone, by README's lines.
func (t *tree) check(ctx context.Context) error {
	version, err := t.version()
	if err != nil {
		return err
	}
	commit, err := t.commit(ctx)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "idem-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	proxy := filepath.Join(temporary, "proxy")
	if err := t.makeProxy(ctx, proxy, commit, version); err != nil {
		return err
	}
	c := consumer{directory: filepath.Join(temporary, "consumer")}
	if c.environment, err = environment(ctx, proxy, filepath.Join(temporary, "modules")); err != nil {
		return err
	}
	if err := t.write(ctx, c.directory); err != nil {
		return err
	}
	commands := [][]string{{"go", "mod", "init", "example.com/consumer"}}
	for _, m := range t.modules {
		if m.importable() {
			commands = append(commands, []string{"go", "get", m.path()})
		}
	}
	commands = append(commands,
		[]string{"go", "get", "-t", "./..."},
		[]string{"go", "list", "-m", root + "/..."},
		[]string{"go", "vet", "./..."},
		[]string{"go", "test", "./..."},
	)
	for _, command := range commands {
		if err := c.run(ctx, command); err != nil {
			return err
		}
	}
	return t.checkClone(ctx, &consumer{directory: filepath.Join(temporary, "app"), environment: c.environment})
}

// checkClone builds a consumer of a clone that lies beside it, as README's lines want it.
func (t *tree) checkClone(ctx context.Context, c *consumer) error {
	installs, err := t.installs()
	if err != nil || len(installs) == 0 {
		return err
	}
	const source = "package main\n\nimport (\n\t_ %q\n\t_ %q\n\t_ %q\n\t_ %q\n)\n\nfunc main() {}\n"
	imports := []any{root + "/ginidem", root + "/echoidem", root + "/echoidem/v5", root + "/gormstore"}
	if err := put(fmt.Sprintf(source, imports...), c.directory, "main.go"); err != nil {
		return err
	}
	commands := [][]string{{"git", "clone", "-q", t.directory, "../idem"}, {"go", "mod", "init", "example.com/app"}}
	for _, command := range append(append(commands, installs...), []string{"go", "mod", "tidy"}, []string{"go", "build", "."}) {
		if err := c.run(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// environment is that of a machine that has never seen the tree: no workspace, and a cache of modules of its own, so that
// the version of the check is never taken for the published one. What others published comes from this machine's cache
// where it is there.
func environment(ctx context.Context, proxy, cache string) ([]string, error) {
	settings, err := output(ctx, "", "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	downloads, others, _ := strings.Cut(settings, "\n")
	return append(os.Environ(),
		"GOWORK=off",
		"GOFLAGS=-modcacherw",
		"GONOSUMDB="+root,
		"GOMODCACHE="+cache,
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(downloads, "cache", "download")+","+others,
	), nil
}

// installs are the README's lines that begin with "go mod edit": until there is a release, the way to use a clone.
func (t *tree) installs() ([][]string, error) {
	readme, err := os.ReadFile(filepath.Join(t.directory, "README.md"))
	if err != nil {
		return nil, err
	}
	var commands [][]string
	for line := range strings.Lines(string(readme)) {
		line, _, _ = strings.Cut(line, "#")
		if strings.HasPrefix(line, "go mod edit ") {
			commands = append(commands, strings.Fields(line))
		}
	}
	return commands, nil
}

// write makes the consumer's files: one that imports every package, and the examples.
func (t *tree) write(ctx context.Context, directory string) error {
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return err
	}
	var imports strings.Builder
	for _, m := range t.modules {
		if !m.importable() {
			continue
		}
		directory := filepath.Join(t.directory, m.directory)
		packages, err := output(ctx, directory, "go", "list", "-f", "{{if .GoFiles}}{{.Name}} {{.ImportPath}}{{end}}", "./...")
		if err != nil {
			return err
		}
		for line := range strings.Lines(packages) {
			name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
			if path != "" && name != "main" && !strings.Contains(path, "/internal/") { // "": tests alone
				fmt.Fprintf(&imports, "import _ %q\n", path)
			}
		}
	}
	text := "// Package all imports every package that can be imported.\npackage all\n\n" + imports.String()
	if err := put(text, directory, "all", "all.go"); err != nil {
		return err
	}
	for _, pattern := range examples {
		files, err := filepath.Glob(filepath.Join(t.directory, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := put(string(text), directory, filepath.Dir(pattern), filepath.Base(file)); err != nil {
				return err
			}
		}
	}
	return nil
}

func put(text string, path ...string) error {
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// consumer is a module outside of the tree.
type consumer struct {
	directory   string
	environment []string
}

func (c *consumer) run(ctx context.Context, arguments []string) error {
	fmt.Println("$", strings.Join(arguments, " "))
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Dir, command.Env = c.directory, c.environment
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(arguments, " "), err)
	}
	return nil
}
