package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/reset"
)

func resetCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Remove every process, mount and file that the daemon made",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			if ids := dir.Volumes(); len(ids) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "The content of these volumes and snapshots is deleted, too: %s\n",
					strings.Join(ids, ", "))
			}
			if ids := dir.FileSystems(); len(ids) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "The content of these file systems is deleted, too: %s\n",
					strings.Join(ids, ", "))
			}
			if !yes {
				fmt.Fprintf(
					cmd.ErrOrStderr(), "This deletes all clusters, users and files in %s for good. Type yes to go on: ", dir,
				)
				answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
				if strings.TrimSpace(answer) != "yes" {
					if err != nil {
						fmt.Fprintln(cmd.ErrOrStderr())
					}
					return errors.New("nothing was removed; \"coracle reset --yes\" does not ask")
				}
			}
			return reset.Run(cmd.Context(), dir, progressPrinter(cmd.OutOrStdout()))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
