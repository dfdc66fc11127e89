package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// principal is a caller, as the app's API takes it.
type principal struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	Tenant  string `json:"tenant,omitempty"`
	Client  string `json:"client,omitempty"`
}

const aboutInput = "\n\nKeys and principals come from the terminal or the standard input, never from arguments, which\n" +
	"other users of the machine see and shells keep."

func (c *tool) findCommand() *cobra.Command {
	var byKey bool
	var call string
	command := &cobra.Command{
		Use:   "find",
		Short: "Find operations by what you have of them",
		Long: "Find operations by what you have of them: an id or its first 8 digits, a reference of the service (a charge, an\n" +
			"order), or the key by which a provider knows a call. It is asked for, or read from the standard input.\n\n" +
			"--by-key finds one by the client's key and its caller: on the standard input as\n" +
			`{"principal": {"issuer": "...", "subject": "...", "tenant": "...", "client": "..."}, "key": "..."}` + aboutInput,
		Example: "  idemctl find\n  echo ch_123 | idemctl find -o json\n  idemctl find --by-key",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := c.wanted(byKey, call)
			if err != nil {
				return err
			}
			a, err := c.api()
			if err != nil {
				return err
			}
			r, err := a.request(cmd.Context(), http.MethodPost, body, "operations", "find")
			if err != nil {
				return err
			}
			answer, err := a.read(r)
			if err != nil {
				return err
			}
			var found struct {
				Operations json.RawMessage
				As         []string
				Whole      bool
			}
			if json.Unmarshal(answer, &found) != nil || found.Operations == nil {
				return fail(failed, "the app's answer has no operations: is --url the address of its API?")
			}
			rows, err := c.printList(found.Operations)
			if !found.Whole {
				_, _ = fmt.Fprintln(c.log, "Not all open operations were compared: there are too many.")
			}
			if err == nil && len(rows) == 0 {
				return fail(absent, "nothing was found. It was looked for as %s", strings.Join(found.As, ", "))
			}
			return err
		},
	}
	command.Flags().BoolVar(&byKey, "by-key", false, "by the client's key and its caller")
	command.Flags().StringVar(&call, "call", "", "the name of the call whose key the provider has, as the code has it")
	return command
}

// wanted reads what is looked for.
func (c *tool) wanted(byKey bool, call string) (any, error) {
	var wanted struct {
		Principal *principal `json:"principal,omitempty"`
		Key       string     `json:"key,omitempty"`
		Text      string     `json:"text,omitempty"`
		Call      string     `json:"call,omitempty"`
	}
	wanted.Call = call
	var err error
	switch {
	case byKey && call != "":
		return nil, fail(misused, "--call: it is not for --by-key")
	case byKey && c.terminal:
		if wanted.Principal, err = c.askPrincipal(); err != nil {
			return nil, err
		}
		_, _ = fmt.Fprint(c.log, "Key (it is not shown): ")
		if wanted.Key, err = c.secret(); err != nil {
			return nil, fail(cancelled, "cancelled: nothing was sent")
		}
	case byKey:
		if err := c.decode(&wanted); err != nil {
			return nil, err
		}
	case c.terminal:
		if wanted.Text, err = c.ask("Id, reference, or the provider's key"); err != nil {
			return nil, err
		}
	default:
		text, err := c.input()
		if err != nil {
			return nil, err
		}
		wanted.Text = strings.TrimSpace(string(text))
	}
	switch {
	case byKey && (wanted.Principal == nil || wanted.Key == "" || wanted.Text != ""):
		return nil, fail(misused, "the standard input: want principal and key, see idemctl find --help")
	case !byKey && wanted.Text == "":
		return nil, fail(misused, "the standard input is empty: want an id, a reference, or a provider's key")
	}
	return wanted, nil
}

// decode reads a JSON object of the standard input. What is wrong with it is said without its values.
func (c *tool) decode(v any) error {
	text, err := c.input()
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("there is more than one")
	}
	if err != nil {
		return fail(misused, "the standard input: want one JSON object with the members that --help names, and no other")
	}
	return nil
}

func (c *tool) askPrincipal() (*principal, error) {
	var p principal
	if !c.terminal {
		return &p, c.decode(&p)
	}
	for _, question := range []struct {
		text  string
		value *string
	}{{"Issuer", &p.Issuer}, {"Subject", &p.Subject}, {"Tenant (if any)", &p.Tenant}, {"Client (if any)", &p.Client}} {
		var err error
		if *question.value, err = c.ask(question.text); err != nil {
			return nil, err
		}
	}
	return &p, nil
}

func (c *tool) refuseCommand() *cobra.Command {
	var before, reason string
	command := &cobra.Command{
		Use:   "refuse-keys",
		Short: "Refuse timed keys that were made before a moment, after a restore or a failover",
		Example: "  idemctl refuse-keys --before 2026-11-29T03:00:00Z --reason 'failover of that night'\n" +
			"  idemctl refuse-keys --before $(date -u +%FT%TZ) --reason 'restored' --yes",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := time.Parse(time.RFC3339, before)
			if err != nil {
				return fail(misused, "--before: want a time of RFC 3339, such as %s", time.Now().UTC().Format(time.RFC3339))
			}
			body := map[string]any{"before": at, "reason": reason}
			return c.command(cmd, reason, body, []string{"keys", "refusals"},
				"Refuse every timed key that was made before "+at.UTC().Format(time.RFC3339)+" and has no record, on all routes. It "+
					"cannot be taken back.")
		},
	}
	command.Flags().StringVar(&before, "before", "", "the moment, at most 5 minutes ahead")
	command.Flags().StringVar(&reason, "reason", "", "why")
	return c.changes(command)
}

func (c *tool) markCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use:   "mark [ID...]",
		Short: "Mark operations as unknown that the provider knows and a restore has lost",
		Long: "Mark operations as unknown that the provider knows and a restore has lost. Without arguments the ids are read\n" +
			"from the standard input, one a line. An id that has a record is left alone.",
		Example: "  idemctl mark 9f2c... --reason 'restore of that night'\n" +
			"  idemctl mark --reason 'restore of that night' --yes <ids-of-the-provider",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if len(ids) == 0 && !c.terminal {
				text, err := c.input()
				if err != nil {
					return err
				}
				ids = strings.Fields(string(text))
			}
			if len(ids) == 0 {
				return fail(misused, "ID: name the operations, or give them on the standard input")
			}
			if len(ids) > 500 {
				return fail(misused, "ID: there are %d; want at most 500 at a time, as of xargs -n 500", len(ids))
			}
			for i, id := range ids {
				var err error
				if ids[i], err = idOf(fmt.Sprintf("ID %d", i+1), id); err != nil {
					return err
				}
			}
			return c.command(cmd, reason, map[string]any{"ids": ids, "reason": reason}, []string{"operations", "marks"},
				fmt.Sprintf("Mark %d operations as unknown, but for those that have a record. Their keys are taken then.", len(ids)))
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why: it is kept in the history, with your name")
	return c.changes(command)
}

func (c *tool) eraseCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use:   "erase",
		Short: "Erase what the records of a principal hold",
		Long: "Erase what the records of a principal hold; their keys stay taken. The principal is asked for, or read from the\n" +
			`standard input as {"issuer": "...", "subject": "...", "tenant": "...", "client": "..."}` + aboutInput,
		Example: "  idemctl erase --reason 'request 7'\n  idemctl erase --reason 'request 7' --yes <principal.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			who, err := c.askPrincipal()
			if err != nil {
				return err
			}
			return c.command(cmd, reason, map[string]any{"principal": who, "reason": reason}, []string{"erasures"},
				"Erase the answers, the results of steps and the references of this principal. They cannot be brought back.")
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why")
	return c.changes(command)
}

// command asks, and sends a command that is not about one operation that is there.
func (c *tool) command(cmd *cobra.Command, reason string, body any, path []string, plan string) error {
	if strings.TrimSpace(reason) == "" {
		return fail(misused, "--reason: say why; it is kept with your name")
	}
	a, err := c.api()
	if err != nil {
		return err
	}
	if err := c.confirm(plan, "Reason: "+line(reason), "At "+a.base.String()); err != nil {
		return err
	}
	answer, err := a.send(cmd.Context(), strings.Join(path, "/"), body, path...)
	if err != nil {
		return err
	}
	return c.print(answer)
}
