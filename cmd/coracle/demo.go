package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/demo"
	"github.com/coracle-eks/coracle/internal/host/machine"
	"github.com/coracle-eks/coracle/internal/upstream"
)

func demoCommand() *cobra.Command {
	var name, bundles string
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Take a guided tour: cluster, nodes, pods, access, upgrade",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			o, err := demoOptions(dir, bundles)
			if err != nil {
				return err
			}
			o.Cluster, o.Keep = name, keep
			return demo.Run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&name, "name", "demo", "`name` of the cluster that the tour makes")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the cluster there at the end")
	cmd.Flags().StringVar(&bundles, "bundles", "", "the only `directory` of Kubernetes programs [CORACLE_BUNDLES]")
	return cmd
}

// demoOptions returns the options of a tour with the daemon of dir. The error says when the daemon is not running.
func demoOptions(dir datadir.Dir, bundles string) (o demo.Options, err error) {
	if o.AWS, err = clientConfig(dir, false); err != nil {
		return o, err
	}
	s, err := dir.ReadSettings()
	if err != nil {
		return o, err
	}
	o.Simulated = !daemon.RealMachines(s)
	o.FindBundle = upstream.OpenBundles(upstream.Options{Dir: bundles, DataDir: string(dir)}).Find
	o.DataDirFlag = dataDirFlag(dir)
	o.Exec = func(ctx context.Context, instance string, command ...string) (string, error) {
		var out strings.Builder
		exit, err := execInMachine(ctx, dir, instance, machine.Command{Args: command, Stdout: &out, Stderr: io.Discard})
		if err == nil && exit != 0 {
			err = fmt.Errorf("exit status %d", exit)
		}
		return out.String(), err
	}
	return o, nil
}
