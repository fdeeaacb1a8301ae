package main

import (
	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
)

// operationsCommand writes docs/operations.md ("make docs").
func operationsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "operations",
		Short:  "Print which operations of AWS are served, in Markdown",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return daemon.PrintOperations(cmd.OutOrStdout()) },
	}
}
