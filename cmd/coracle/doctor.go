package main

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/doctor"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/kubernetes"
)

func doctorCommand() *cobra.Command {
	var listen, bundles string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host lacks, with the command that fixes it",
		Long: "Say what this host lacks, with the command that fixes it. The exit status is 1 when clusters will " +
			"not work.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			healthy, err := examineHost(cmd.Context(), cmd.OutOrStdout(), dir, listen, bundles)
			if err != nil {
				return err
			}
			if !healthy {
				return exitCode(1)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "`address` that the daemon is to listen on [CORACLE_LISTEN]")
	cmd.Flags().StringVar(&bundles, "bundles", "", "the only `directory` of Kubernetes programs [CORACLE_BUNDLES]")
	return cmd
}

// examineHost examines this host for a daemon in dir, prints what it lacks, and reports whether clusters will work.
func examineHost(ctx context.Context, w io.Writer, dir datadir.Dir, listen, bundles string) (healthy bool, err error) {
	return doctor.Print(w, doctor.Examine(ctx, describeHost(dir, listen, bundles)))
}

// describeHost returns this host for a daemon in dir.
func describeHost(dir datadir.Dir, listen, bundles string) doctor.Host {
	h := doctor.Host{
		Dir:     dir,
		Listen:  daemon.DefaultListen,
		Bundles: bundles,
		Version: kubernetes.Default,
		Ports:   map[string]int{},
	}
	s, err := dir.ReadSettings()
	switch {
	case err == nil:
		h.Listen, h.Simulated = s.Listen, s.Machines == "simulated"
		h.Ports["API servers' webhooks"] = s.WebhookPort
		if port, err := etcd.Port(dir.Etcd()); err == nil {
			h.Ports["etcd"] = port
		}
	case !errors.Is(err, fs.ErrNotExist):
		h.Settings = err
	}
	if listen != "" {
		h.Listen = listen
	}
	return h
}
