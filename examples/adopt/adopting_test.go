// Package adopt_test follows docs/adopting.md, step by step.
package adopt_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
)

var (
	section = regexp.MustCompile(`\]\(\.\./examples/adopt/(\w+)/after\)`)
	diff    = regexp.MustCompile(`\]\(\.\./examples/adopt/(\w+/[\w-]+\.diff)\)`)
	block   = regexp.MustCompile("(?s)```(diff|console|sql)\n(.*?)```")
)

// rows are what the apps have booked before the first step.
var rows = map[string]string{
	"wallet":  "INSERT INTO transfers (`from`, `to`, amount) VALUES (1, 2, 100)",
	"tickets": "INSERT INTO orders (customer, show, seats) VALUES ('customer-1', 'opera', 2)",
}

// The page is true: each app of after is what the diffs make of the app before, each command prints what stands there, and
// each statement is run.
func TestAdopting(t *testing.T) {
	page, err := os.ReadFile("../../docs/adopting.md")
	require.NoError(t, err)
	idemvet := filepath.Join(t.TempDir(), "idemvet")
	output, err := command(t, "../../core/idemvet", "go", "build", "-o", idemvet, ".").CombinedOutput()
	require.NoError(t, err, string(output))

	sections := strings.Split(string(page), "\n## ")
	found := map[string]bool{}
	for _, text := range sections {
		name := section.FindStringSubmatch(text)
		if name == nil {
			continue
		}
		found[name[1]] = true
		t.Run(name[1], func(t *testing.T) {
			blocks := block.FindAllStringSubmatch(withDiffs(t, text), -1)
			w := open(t, name[1], idemvet)
			for _, b := range slices.Backward(blocks) {
				for _, h := range slices.Backward(hunks(b)) {
					w.change(h.file, h.after, h.before)
				}
			}
			for _, b := range blocks {
				for _, h := range hunks(b) {
					w.change(h.file, h.before, h.after)
				}
				switch b[1] {
				case "console":
					w.run(b[2])
				case "sql":
					w.execute(b[2])
				}
			}
		})
	}
	require.Len(t, found, len(rows))
}

// withDiffs puts the diffs that a text links to behind their links.
func withDiffs(t *testing.T, text string) string {
	t.Helper()
	return diff.ReplaceAllStringFunc(text, func(link string) string {
		content, err := os.ReadFile(diff.FindStringSubmatch(link)[1])
		require.NoError(t, err)
		return link + "\n```diff\n" + string(content) + "```\n"
	})
}

// walk is an app on its way from before to after.
type walk struct {
	t       *testing.T
	name    string
	dir     string
	idemvet string
}

// open copies the app of after into a folder of its own, beside the modules of this repository.
func open(t *testing.T, name, idemvet string) walk {
	w := walk{t, name, filepath.Join(t.TempDir(), name), idemvet}
	require.NoError(t, os.Mkdir(w.dir, 0o700))
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for file, text := range w.files(name + "/after") {
		w.write(file, text)
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		// Few apps have a module path with a host.
		w.write(file, strings.Replace(string(text), "module github.com/auth19/idem/examples/adopt", "module "+name, 1))
	}
	w.write("go.work", "go 1.26.0\n\nuse (\n\t.\n\t"+root+"\n)\n\nreplace github.com/auth19/idem v0.1.0 => "+root+"\n")
	sums, err := os.ReadFile(filepath.Join(root, "go.work.sum"))
	require.NoError(t, err)
	w.write("go.work.sum", string(sums))
	return w
}

// files returns the app's files in a directory. The comment of the package differs.
func (w walk) files(directory string) map[string]string {
	w.t.Helper()
	names, err := filepath.Glob(filepath.Join(directory, "*.go"))
	require.NoError(w.t, err)
	files := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(w.t, err)
		_, code, ok := strings.Cut("\n"+string(text), "\npackage ")
		require.True(w.t, ok, name)
		files[filepath.Base(name)] = "package " + code
	}
	return files
}

func (w walk) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
}

// hunk is a change of a file. Where before is empty, the file is new.
type hunk struct{ file, before, after string }

// hunks are the changes of a block, if it is a diff. "@@ main.go" begins a change of this file.
func hunks(block []string) (all []hunk) {
	if block[1] != "diff" {
		return nil
	}
	for _, text := range strings.Split("\n"+block[2], "\n@@ ")[1:] {
		var h hunk
		name, lines, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\n")
		h.file = name
		for line := range strings.SplitSeq(lines, "\n") {
			switch {
			case strings.HasPrefix(line, "-"):
				h.before += line[1:] + "\n"
			case strings.HasPrefix(line, "+"):
				h.after += line[1:] + "\n"
			default:
				line = strings.TrimPrefix(line, " ")
				h.before += line + "\n"
				h.after += line + "\n"
			}
		}
		all = append(all, h)
	}
	return all
}

// change replaces a text of a file, in which it stands once. A file that begins or ends with nothing is made or removed.
func (w walk) change(name, from, to string) {
	w.t.Helper()
	text, there := w.files(w.dir)[name]
	switch {
	case from == "":
		require.False(w.t, there, "%s is there already", name)
		w.write(name, to)
	case to == "":
		require.Equal(w.t, from, text)
		require.NoError(w.t, os.Remove(filepath.Join(w.dir, name)))
	default:
		require.Equal(w.t, 1, strings.Count(text, from), "%s: not once there:\n%s\nin\n%s", name, from, text)
		w.write(name, strings.Replace(text, from, to, 1))
	}
}

// run runs the command of the first line, until it has printed the lines that follow.
func (w walk) run(console string) {
	w.t.Helper()
	line, printed, _ := strings.Cut(console, "\n")
	switch line {
	case "$ go run .":
		output, err := command(w.t, w.dir, "go", "build", "-o", "app", ".").CombinedOutput()
		require.NoError(w.t, err, string(output))
		w.start(printed)
	case "$ idemvet .":
		output, err := command(w.t, w.dir, w.idemvet, ".").CombinedOutput()
		if exit := new(exec.ExitError); err != nil {
			require.ErrorAs(w.t, err, &exit)
		}
		require.True(w.t, prints(string(output), printed), "%s\nprints\n%s\nnot\n%s", line, output, printed)
		require.Equal(w.t, strings.Count(string(output), "\n"), strings.Count(printed, "\n"), "%s\nprints\n%s", line, output)
	default:
		w.t.Fatalf("an unknown command: %s", line)
	}
	if line == "$ go run ." && w.tableIsEmpty() {
		w.execute(rows[w.name])
	}
}

// start starts the app, and stops it when it has printed that.
func (w walk) start(printed string) {
	w.t.Helper()
	app := command(w.t, w.dir, "./app")
	app.Env = append(os.Environ(), "ADDR=127.0.0.1:0")
	output, err := os.Create(filepath.Join(w.dir, "output"))
	require.NoError(w.t, err)
	app.Stdout, app.Stderr = output, output
	require.NoError(w.t, app.Start())
	ended := make(chan struct{})
	go func() { _ = app.Wait(); close(ended) }()
	defer func() {
		_ = app.Process.Kill()
		<-ended
		require.NoError(w.t, output.Close())
	}()
	for last := false; ; {
		text, err := os.ReadFile(output.Name())
		require.NoError(w.t, err)
		if prints(string(text), strings.ReplaceAll(printed, "127.0.0.1:8080", "127.0.0.1:0")) {
			return
		}
		require.False(w.t, last, "it prints\n%s\nnot\n%s", text, printed)
		select {
		case <-ended:
			last = true
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// prints reports whether the lines are in the output, in this order. A line may be cut by " ..." at its end.
func prints(output, lines string) bool {
	for line := range strings.Lines(lines) {
		line, cut := strings.CutSuffix(strings.TrimSuffix(line, "\n"), " ...")
		if !cut {
			line += "\n"
		}
		_, rest, ok := strings.Cut(output, line)
		if !ok {
			return false
		}
		output = rest
	}
	return true
}

// execute runs statements on the app's database.
func (w walk) execute(statements string) {
	w.t.Helper()
	w.database(func(db *gorm.DB) { require.NoError(w.t, db.Exec(statements).Error, statements) })
}

func (w walk) tableIsEmpty() (empty bool) {
	w.t.Helper()
	table := strings.Fields(rows[w.name])[2]
	w.database(func(db *gorm.DB) {
		var count int64
		require.NoError(w.t, db.Table(table).Count(&count).Error)
		empty = count == 0
	})
	return empty
}

func (w walk) database(do func(db *gorm.DB)) {
	w.t.Helper()
	db, err := gorm.Open(sqlite.Open("file:" + filepath.Join(w.dir, w.name+".db")))
	require.NoError(w.t, err)
	pool, err := db.DB()
	require.NoError(w.t, err)
	do(db)
	require.NoError(w.t, pool.Close())
}

func command(t *testing.T, directory, name string, arguments ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, arguments...)
	c.Dir = directory
	return c
}
