package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// surroundings are what the command has of its process.
type surroundings struct {
	in       io.Reader
	out, log io.Writer
	getenv   func(name string) string
	terminal bool                   // somebody sits in front of in
	secret   func() (string, error) // reads a line of the terminal without showing it
}

// The exit codes, as the help of the command lists them.
const (
	failed = iota + 1
	misused
	cancelled
	absent
	denied
	refused
	uncertain
)

const exitCodes = `Exit codes:
  0  done
  1  the database or the app does not answer, or is not as it should be
  2  a flag, an argument, a variable or the input is wrong: nothing was sent
  3  cancelled at the prompt: nothing was sent
  4  there is no such operation, or nothing was found
  5  the token is not accepted, or lacks the role
  6  the app has refused: nothing was changed
  7  it is not known whether it was done: look, and send it again`

const environment = `Environment:
  DATABASE_URL        for migrate and status: postgres://... or sqlite:PATH
  IDEMCTL_URL         for all others: the app's API up to /operations, such as https://shop.example/v1
  IDEMCTL_TOKEN       an operator's token for it, or
  IDEMCTL_TOKEN_FILE  a file with the token
  IDEMCTL_KEY_HEADER  the header of idempotency keys, if it is not Idempotency-Key`

// failure is an error with the code that the process ends with.
type failure struct {
	code int
	text string
}

// Error implements error. What a server has sent may be in it.
func (f *failure) Error() string { return plain(f.text) }

func fail(code int, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...)}
}

// tool is one run of the command.
type tool struct {
	surroundings
	lines *bufio.Reader // of in

	output          string
	url, tokenFile  string
	schema          string
	yes, withAnswer bool

	server server // see withDatabase
}

// run runs the command line, and returns the exit code.
func run(ctx context.Context, args []string, s surroundings) int {
	c := &tool{surroundings: s, lines: bufio.NewReader(s.in)}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.log)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	f, ok := errors.AsType[*failure](err)
	if !ok { // cobra's, about the command line
		f = &failure{misused, err.Error() + " (see idemctl --help)"}
	}
	_, _ = fmt.Fprintln(s.log, "idemctl:", f.Error())
	return f.code
}

func (c *tool) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "idemctl",
		Short: "Look at operations, settle them, and keep their database",
		Long: "idemctl does for operators and pipelines what the pages of the inspector do in a browser.\n\n" +
			environment + "\n\n" + exitCodes,
		Example: "  idemctl status\n  idemctl list\n  idemctl show 9f2c...\n" +
			"  idemctl settle 9f2c... --fence 1 --outcome not_applied --reason 'cancelled by the provider, ticket 7'",
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains([]string{"text", "json"}, c.output) {
				return fail(misused, "--output: %q is neither text nor json", c.output)
			}
			return nil
		},
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&c.output, "output", "o", "text", "text for people, or json for programs")
	flags.StringVar(&c.url, "url", "", "instead of IDEMCTL_URL")
	flags.StringVar(&c.tokenFile, "token-file", "", "instead of IDEMCTL_TOKEN_FILE")
	flags.StringVar(&c.schema, "schema", "", "the schema of the tables on PostgreSQL, if the search path does not have it")
	root.AddCommand(c.migrateCommand(), c.statusCommand(), c.listCommand(), c.findCommand(), c.showCommand(), c.deriveCommand(),
		c.settleCommand(), c.withdrawCommand(),
		c.pushCommand("retry", "try a half-done operation again now"),
		c.pushCommand("give-up", "park a half-done operation, so that it can be settled"),
		c.refuseCommand(), c.markCommand(), c.eraseCommand())
	return root
}

// changes adds the flag of a command that changes something.
func (c *tool) changes(command *cobra.Command) *cobra.Command {
	command.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	return command
}

// confirm says what will be done, and asks. Without a terminal nobody can be asked: --yes answers before.
func (c *tool) confirm(plan ...string) error {
	for _, line := range plan {
		_, _ = fmt.Fprintln(c.log, plain(line))
	}
	switch {
	case c.yes:
		return nil
	case !c.terminal:
		return fail(misused, "--yes: it is needed where nobody sits at a terminal. Nothing was sent")
	}
	answer, err := c.ask("Type yes to do it")
	if err != nil {
		return err
	}
	if answer != "yes" {
		return fail(cancelled, "cancelled: nothing was sent")
	}
	return nil
}

// ask reads a line of the terminal.
func (c *tool) ask(question string) (string, error) {
	_, _ = fmt.Fprintf(c.log, "%s: ", question)
	line, err := c.lines.ReadString('\n')
	if err != nil && line == "" {
		return "", fail(cancelled, "cancelled: nothing was sent")
	}
	return strings.TrimSpace(line), nil
}

// maxInput bounds what is read of a file, or of the standard input.
const maxInput = 1 << 20

// input reads what was given on the standard input, if nobody sits there.
func (c *tool) input() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(c.lines, maxInput+1))
	if err != nil || len(text) > maxInput {
		return nil, fail(misused, "the standard input cannot be read, or is above 1 MiB")
	}
	return text, nil
}
