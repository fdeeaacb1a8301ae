package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
)

func deniedCommand() *cobra.Command {
	var account, principal, output string
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "denied",
		Short: "Say which requests policies refused, and why",
		Long: `Say which requests policies refused, and why.

The newest are last. Each is a principal with an action on a resource, and AWS's reason: the policy that denies
it, or the kind of policy in which a statement is missing, with that statement. Requests that are alike are one.
The daemon keeps 500 of an account for a day, in memory: a restart forgets them. Who owns the data directory may ask.`,
		Example: `  coracle denied
  coracle denied --principal role/web --since 10m
  coracle denied -o json | jq -r '.[] | [.principal, .action] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("-o %s: the format is json", output)
			}
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			all, err := admin.NewClient(dir.Socket()).Denials(cmd.Context(), account)
			if errors.Is(err, admin.ErrNotRunning) {
				return notRunning(dir)
			} else if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(d admin.Denial) bool {
				return !strings.Contains(d.Principal, principal) || since > 0 && time.Since(d.Last) > since
			})
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(all)
			}
			slices.Reverse(all)
			admin.PrintDenials(cmd.OutOrStdout(), all)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&account, "account", "", "`number` of the account (default that of the daemon)")
	f.StringVar(&principal, "principal", "", "`part` of the ARN of the principal, or of the subject of a token")
	f.DurationVar(&since, "since", 0, "only what was refused in the last `duration`, such as 10m")
	f.StringVarP(&output, "output", "o", "", "`format`: json")
	return cmd
}
