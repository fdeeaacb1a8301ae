package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/trust"
)

func trustCommand() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Add the daemon's certificate authority to the system's trust store",
		Long: `trust adds the daemon's certificate authority to the trust store of this system, so that every program here
can open TLS connections to AWS's names that lead to the daemon: above all to the OIDC issuers of clusters. The system
trusts it for AWS's names and those of this host alone. "coracle trust --remove" and "coracle reset" remove it.

Shells that have evaluated "coracle env" need none of this: the variables SSL_CERT_FILE and AWS_CA_BUNDLE name a file
that has the daemon's authority beside those of the system.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			if remove {
				return removeTrust(cmd.Context(), cmd.OutOrStdout(), dir)
			}
			return installTrust(cmd.Context(), cmd.OutOrStdout(), dir)
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the authority from the trust store")
	return cmd
}

func installTrust(ctx context.Context, w io.Writer, dir datadir.Dir) error {
	authority, err := daemon.SystemAuthority(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return notRunning(dir)
	}
	if err != nil {
		return err
	}
	system, err := trust.Find()
	if err != nil {
		return fmt.Errorf("%w: add %s to the certificate authorities that this system trusts by its own means (macOS: "+
			"\"security add-trusted-cert\"), or use SSL_CERT_FILE and AWS_CA_BUNDLE of \"coracle env\"", err,
			dir.Join("pki", "ca.crt"))
	}
	if os.Geteuid() != 0 {
		return errors.New("only root may change the system's trust store: run \"coracle trust\" as root with the " +
			"--data-dir of this daemon, or use SSL_CERT_FILE and AWS_CA_BUNDLE of \"coracle env\"")
	}
	if err := system.Install(ctx, dir.Owner(), authority); err != nil {
		return fmt.Errorf("add the certificate authority of %s to the system's trust store: %w", dir, err)
	}
	fmt.Fprintf(w, "This system trusts the daemon of %s for AWS's names (%s). Remove that with:\n"+
		"  coracle trust --remove\n", dir, system.File(dir.Owner()))
	return nil
}

func removeTrust(ctx context.Context, w io.Writer, dir datadir.Dir) error {
	removed, err := trust.RemoveAll(ctx, dir.Owner())
	if err != nil {
		return fmt.Errorf("remove the certificate authority of %s from the system's trust store: %w", dir, err)
	}
	if removed {
		fmt.Fprintf(w, "This system no longer trusts the daemon of %s.\n", dir)
	} else {
		fmt.Fprintf(w, "This system did not trust the daemon of %s.\n", dir)
	}
	return nil
}
