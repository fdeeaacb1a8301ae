package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
)

// debugCommand returns the commands for developers of coracle.
func debugCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Show the inner state of the daemon: a dump, metrics, profiles",
		Args:  cobra.NoArgs,
	}
	client := func(cmd *cobra.Command) (*admin.Client, error) {
		dir, err := dataDir(cmd)
		return admin.NewClient(dir.Socket()), err
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "dump",
		Short: "Print settings, limits, processes and what controllers fail at, as JSON",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := client(cmd)
			if err != nil {
				return err
			}
			dump, err := daemon.Dump(cmd.Context())
			if err != nil {
				return err
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(dump)
		},
	}, &cobra.Command{
		Use:   "metrics",
		Short: "Print the daemon's metrics in the text format of Prometheus",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := client(cmd)
			if err != nil {
				return err
			}
			return daemon.Metrics(cmd.Context(), cmd.OutOrStdout())
		},
	})
	var span time.Duration
	profile := &cobra.Command{
		Use:       "profile NAME",
		Short:     "Write a profile of the Go runtime to standard output, for go tool pprof (trace: go tool trace)",
		Long:      "Write a profile of the Go runtime to standard output: " + strings.Join(admin.Profiles, ", ") + ".",
		Args:      cobra.ExactArgs(1),
		ValidArgs: admin.Profiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(admin.Profiles, args[0]) {
				return fmt.Errorf("%q is no profile: choose one of %s", args[0], strings.Join(admin.Profiles, ", "))
			}
			daemon, err := client(cmd)
			if err != nil {
				return err
			}
			return daemon.Profile(cmd.Context(), args[0], span, cmd.OutOrStdout())
		},
	}
	profile.Flags().DurationVar(&span, "for", 10*time.Second, "`time` that \"profile\" (of the CPU) and \"trace\" take")
	cmd.AddCommand(profile)
	return cmd
}
