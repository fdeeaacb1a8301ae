package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
)

func accountCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "account", Short: "Make further AWS accounts"}
	cmd.AddCommand(&cobra.Command{
		Use:     "create NUMBER",
		Short:   "Make an account with a root access key",
		Example: "  coracle account create 444455556666\n  eval \"$(coracle env --account 444455556666)\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			return createAccount(cmd.Context(), cmd.OutOrStdout(), dir, args[0])
		},
	})
	return cmd
}

// createAccount asks the daemon of dir to create an account, and prints how to use it.
func createAccount(ctx context.Context, w io.Writer, dir datadir.Dir, account string) error {
	a, err := admin.NewClient(dir.Socket()).CreateAccount(ctx, account)
	if errors.Is(err, admin.ErrNotRunning) {
		return notRunning(dir)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(
		w, "Account %s is there. Use it with:\n  eval \"$(coracle env --account %s)\"\n", a.Account, a.Account,
	)
	return err
}
