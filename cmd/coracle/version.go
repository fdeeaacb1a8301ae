package main

import (
	"fmt"
	"runtime"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/version"
	"github.com/coracle-eks/coracle/kubernetes"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of coracle and of what it carries",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			build := ""
			if crash.Enabled {
				build = "\ttest build: " + crash.Environment + " kills it"
			}
			fmt.Fprintf(t, "coracle\t%s%s\n", version.String(), build)
			for _, v := range kubernetes.Versions() {
				mark := ""
				if v.Minor == kubernetes.Default {
					mark = "(default)"
				}
				fmt.Fprintf(t, "kubernetes %s\t%s\t%s\t%s\n", v.Minor, v.GitVersion(), v.PlatformVersion, mark)
			}
			fmt.Fprintf(t, "go\t%s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return t.Flush()
		},
	}
}
