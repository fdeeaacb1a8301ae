package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
)

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the whole state into one file while everything runs on",
		Long:  "Write the whole state (AWS resources, clusters with their objects, keys) into one file while everything runs on. FILE may be - for standard output.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			return daemon.BackupTo(cmd.Context(), cmd.OutOrStdout(), dir, args[0], steps(cmd.ErrOrStderr()))
		},
	}
}

func restoreCommand() *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory from a backup",
		Long:  "Make a data directory from a backup. The directory must be empty or absent, unless --replace is given. FILE may be - for standard input.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			return daemon.RestoreFrom(in, dir, replace, steps(cmd.OutOrStdout()))
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "put what is in the data directory aside and end its processes")
	return cmd
}
