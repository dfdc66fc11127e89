package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/auth19/idem/core/store"
)

func (c *tool) listCommand() *cobra.Command {
	var state, after string
	var limit int
	command := &cobra.Command{
		Use:   "list",
		Short: "List the operations that need somebody, oldest first",
		Example: "  idemctl list\n  idemctl list --state half_done --limit 20\n" +
			"  idemctl list -o json | jq -r '.[].id'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"unknown", "half_done"}, state) {
				return fail(misused, "--state: %q is neither unknown nor half_done", state)
			}
			if limit < 1 || limit > 500 {
				return fail(misused, "--limit: want a number from 1 to 500")
			}
			a, err := c.api()
			if err != nil {
				return err
			}
			query := url.Values{"state": {state}, "limit": {strconv.Itoa(limit)}}
			if after != "" {
				if _, err := idOf("--after", after); err != nil {
					return err
				}
				query.Set("after", after)
			}
			answer, err := a.get(cmd.Context(), query, "operations")
			if err != nil {
				return err
			}
			rows, err := c.printList(answer)
			if err == nil && len(rows) == limit {
				_, _ = fmt.Fprintf(c.log, "There may be more: --after %s\n", rows[limit-1].text("id"))
			}
			return err
		},
	}
	command.Flags().StringVar(&state, "state", "unknown", "unknown, or half_done")
	command.Flags().IntVar(&limit, "limit", 100, "at most so many, 1 to 500")
	command.Flags().StringVar(&after, "after", "", "the last id of the page before")
	return command
}

// printList prints a JSON array of operations.
func (c *tool) printList(answer []byte) ([]object, error) {
	var rows []object
	if json.Unmarshal(answer, &rows) != nil {
		return nil, fail(failed, "the app's answer is no list: is --url the address of its API?")
	}
	if c.output == "json" {
		return rows, c.printJSON(rows)
	}
	if len(rows) == 0 {
		_, _ = fmt.Fprintln(c.log, "There is none.")
		return rows, nil
	}
	c.table(rows, "id", "state", "method", "route", "recovery", "fence", "created_at")
	return rows, nil
}

func (c *tool) showCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "show ID",
		Short: "Show one operation",
		Long: "Show one operation. Headers and body of its answer are left out without --answer: they may hold what only the\n" +
			"caller should know. The app notes who has read an answer, with and without.",
		Example: "  idemctl show 9f2c...\n  idemctl show 9f2c... --answer -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, o, err := c.operation(cmd, args[0])
			if a == nil || err != nil {
				return err
			}
			return c.printOperation(o)
		},
	}
	command.Flags().BoolVar(&c.withAnswer, "answer", false, "with headers and body of the answer")
	return command
}

// operation reads an operation.
func (c *tool) operation(cmd *cobra.Command, text string) (*api, object, error) {
	id, err := idOf("ID", text)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.api()
	if err != nil {
		return nil, nil, err
	}
	answer, err := a.get(cmd.Context(), nil, "operations", id)
	if err != nil {
		return nil, nil, err
	}
	var o object
	if json.Unmarshal(answer, &o) != nil {
		return nil, nil, fail(failed, "the app's answer is no operation: is --url the address of its API?")
	}
	return a, o, nil
}

// printOperation prints an operation, and of its answer what --answer allows.
func (c *tool) printOperation(o object) error {
	for i, m := range o {
		var answer object
		if m.name != "answer" || c.withAnswer || json.Unmarshal(m.value, &answer) != nil {
			continue
		}
		answer = slices.DeleteFunc(answer, func(m member) bool { return m.name != "status" && m.name != "partial" })
		o[i].value, _ = json.Marshal(answer) // it was JSON before
	}
	text, err := json.Marshal(o)
	if err != nil {
		return fail(failed, "%v", err)
	}
	return c.print(text)
}

// idOf reads the id of an operation.
func idOf(field, text string) (string, error) {
	id, err := store.ParseID(text)
	if err != nil {
		return "", fail(misused, "%s: want the 64 hexadecimal digits of an operation's id; idemctl find takes the first 8", field)
	}
	return id.String(), nil
}

func (c *tool) deriveCommand() *cobra.Command {
	var inside string
	command := &cobra.Command{
		Use:   "derive ID NAME",
		Short: "Compute the key by which a provider knows a call",
		Long: "Compute the key by which a provider knows a call of an operation. Nobody is asked. NAME is that of core.Call,\n" +
			"or of core.DeriveCall, as the code has it: a name that is spelled otherwise has another key. The provider has\n" +
			"the form that the handler sends.",
		Example: "  idemctl derive 9f2c... refund\n  idemctl derive 9f2c... refund --inside pay",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := idOf("ID", args[0])
			if err != nil {
				return err
			}
			id, err := store.ParseID(text)
			if err != nil || strings.TrimSpace(args[1]) == "" {
				return fail(misused, "NAME: want the name of a call, as the code has it")
			}
			keys := map[string]store.DerivedKey{"core.Call": id.DeriveStep(args[1]), "core.DeriveCall": id.DeriveCall(args[1])}
			if inside != "" {
				keys = map[string]store.DerivedKey{"inside core.Call": id.DeriveStep(args[1]).DeriveCall(inside)}
			}
			var rows []object
			for _, of := range slices.Sorted(maps.Keys(keys)) {
				rows = append(rows, object{quoted("of", of), quoted("uuid", keys[of].UUID()), quoted("key", keys[of].String())})
			}
			if c.output == "json" {
				return c.printJSON(rows)
			}
			c.table(rows, "of", "uuid", "key")
			return nil
		},
	}
	command.Flags().StringVar(&inside, "inside", "", "a call of core/idemclient by this name, inside the step NAME")
	return command
}

// decision is what a command says about one operation.
type decision struct {
	Fence   int64           `json:"fence"`
	Reason  string          `json:"reason"`
	Outcome string          `json:"outcome,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Undone  string          `json:"undone,omitempty"`

	Propose  bool   `json:"propose,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Withdraw bool   `json:"withdraw,omitempty"`
}

func (c *tool) settleCommand() *cobra.Command {
	var d decision
	var answerFile string
	command := c.decides(&cobra.Command{
		Use:   "settle ID",
		Short: "Settle an unknown operation, for good",
		Long: "Settle an unknown operation, for good. Ask the provider before: docs/operations.md says what it means.\n\n" +
			"--outcome applied: the command took effect. Repeats get the answer of --answer-file, a JSON file: the body of a\n" +
			`201, or {"status": 402, "headers": {"Location": "/x"}, "body": ...}. Without it they get a 201 that names the` + "\n" +
			"operation.\n--outcome not_applied: the key is free, and a repeat runs the command again.\n\n" +
			"Where it takes two: --propose proposes it, and settles nothing. Another operator reads the proposal (idemctl\n" +
			"show), and carries it out by --digest.",
		Example: "  idemctl settle 9f2c... --fence 1 --outcome applied --answer-file answer.json --reason 'charge ch_1'\n" +
			"  idemctl settle 9f2c... --fence 1 --outcome not_applied --reason 'cancelled by the provider, ticket 7' --yes\n" +
			"  idemctl settle 9f2c... --fence 1 --digest 913d... --reason 'I have seen charge ch_1, too'",
	}, &d)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		plan := "as not applied. Its key is free then, and a repeat runs the command again"
		switch {
		case d.Digest != "" && (d.Propose || d.Outcome != "" || answerFile != "" || d.Undone != ""):
			return fail(misused, "--digest: outcome, answer and undone are those of the proposal")
		case d.Digest != "":
			return c.decide(cmd, args[0], "settle", "Carry the proposal "+d.Digest+" out. A settlement is final.", d)
		case d.Outcome == "applied" && d.Undone != "":
			return fail(misused, "--undone: it is for --outcome not_applied: it says what has undone finished steps")
		case d.Outcome == "applied":
			plan = "as applied. Its repeats get a 201 that names the operation"
		case d.Outcome != "not_applied":
			return fail(misused, "--outcome: want applied or not_applied")
		case answerFile != "":
			return fail(misused, "--answer-file: an operation that was not applied has no answer")
		}
		if answerFile != "" {
			text, err := os.ReadFile(answerFile) //nolint:gosec // the operator's own file
			if err != nil {
				return fail(misused, "--answer-file: %v", err)
			}
			if len(text) > maxInput || !json.Valid(text) {
				return fail(misused, "--answer-file: it is no JSON, or above 1 MiB")
			}
			d.Answer, plan = text, fmt.Sprintf("as applied. Its repeats get the %d bytes of %s", len(text), answerFile)
		}
		if d.Propose {
			return c.decide(cmd, args[0], "settle", "Propose to settle it "+plan+". Another operator has to carry it out.", d)
		}
		return c.decide(cmd, args[0], "settle", "Settle it "+plan+". A settlement is final.", d)
	}
	command.Flags().BoolVar(&d.Propose, "propose", false, "only propose it")
	command.Flags().StringVar(&d.Digest, "digest", "", "carry out the proposal that has it, as show says, instead of --outcome")
	command.Flags().StringVar(&d.Outcome, "outcome", "", "applied, or not_applied")
	command.Flags().StringVar(&answerFile, "answer-file", "", "for applied: a JSON file with what repeats get")
	command.Flags().StringVar(&d.Undone, "undone", "", "for not_applied: what has undone steps that have finished")
	return command
}

func (c *tool) withdrawCommand() *cobra.Command {
	d := decision{Withdraw: true}
	command := c.decides(&cobra.Command{
		Use:     "withdraw ID",
		Short:   "Withdraw a proposed settlement: nothing is settled",
		Example: "  idemctl withdraw 9f2c... --fence 1 --digest 913d... --reason 'it was another charge'",
	}, &d)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if d.Digest == "" {
			return fail(misused, "--digest: say which proposal; idemctl show %s has it", args[0])
		}
		return c.decide(cmd, args[0], "settle", "Withdraw the proposal "+d.Digest+". Nothing is settled.", d)
	}
	command.Flags().StringVar(&d.Digest, "digest", "", "the proposal, as show says")
	return command
}

func (c *tool) pushCommand(verb, does string) *cobra.Command {
	var d decision
	command := c.decides(&cobra.Command{
		Use:     verb + " ID",
		Short:   strings.ToUpper(does[:1]) + does[1:],
		Example: "  idemctl " + verb + " 9f2c... --fence 3 --reason 'the provider is back, ticket 7'",
	}, &d)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		return c.decide(cmd, args[0], verb, "This will "+does+".", d)
	}
	return command
}

// decides adds what all commands about one operation take.
func (c *tool) decides(command *cobra.Command, d *decision) *cobra.Command {
	command.Args = cobra.ExactArgs(1)
	command.Flags().Int64Var(&d.Fence, "fence", 0, "the attempt that this is about, as list and show say it")
	command.Flags().StringVar(&d.Reason, "reason", "", "why: it is kept in the history, with your name")
	return c.changes(command)
}

// decide shows the operation, asks, and sends the decision.
func (c *tool) decide(cmd *cobra.Command, id, verb, plan string, d decision) error {
	if d.Fence < 1 {
		return fail(misused, "--fence: say which attempt this is about; idemctl show %s has it", id)
	}
	if strings.TrimSpace(d.Reason) == "" {
		return fail(misused, "--reason: say why; it is kept in the history")
	}
	a, o, err := c.operation(cmd, id)
	if err != nil {
		return err
	}
	if now := o.text("fence"); now != strconv.FormatInt(d.Fence, 10) {
		return fail(refused, "--fence: the operation has fence %s now: read it again. Nothing was sent", cmp.Or(now, "none"))
	}
	about := fmt.Sprintf("Operation %s at %s, %s %s (%s), claimed %s, is %s. Its fence is %d.", o.text("id"), a.base,
		o.text("method"), o.text("route"), o.text("recovery"), o.text("created_at"), o.text("state"), d.Fence)
	asked := []string{about, plan}
	if d.Digest != "" { // who decides by a digest has seen what it stands for
		asked = append(asked, "The proposal: "+cmp.Or(o.text("proposal"), "there is none"))
	}
	if err := c.confirm(append(asked, "Reason: "+line(d.Reason))...); err != nil {
		return err
	}
	answer, err := a.send(cmd.Context(), verb+" "+o.text("id"), d, "operations", o.text("id"), verb)
	if err != nil {
		return err
	}
	var settled object
	if json.Unmarshal(answer, &settled) != nil {
		return c.print(answer)
	}
	return c.printOperation(settled)
}
