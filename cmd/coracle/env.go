package main

import (
	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
)

func envCommand() *cobra.Command {
	var account, region string
	cmd := &cobra.Command{
		Use:     "env",
		Short:   "Print the exports that point AWS clients at the daemon",
		Example: `  eval "$(coracle env)"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			return daemon.PrintEnv(cmd.OutOrStdout(), cmd.ErrOrStderr(), dir, account, region)
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "`number` of the account whose root access key is exported (default the first)")
	cmd.Flags().StringVar(&region, "region", "", "`region` to export (default that of the daemon)")
	return cmd
}

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
			return daemon.CreateAccount(cmd.Context(), cmd.OutOrStdout(), dir, args[0])
		},
	})
	return cmd
}
