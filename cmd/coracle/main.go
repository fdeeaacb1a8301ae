// Command coracle carries Amazon EKS: it serves the AWS APIs that EKS users rely on and stands
// real Kubernetes clusters behind them.
//
// Each command is a file, with its flags and its body: most are clients of a running daemon (package admin) or of a
// data directory (package datadir). "serve" runs the daemon (package daemon), "demo" the guided tour (package demo),
// "reset" removes everything (package reset).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/descriptor"
)

func main() { os.Exit(run()) }

func run() int {
	if err := descriptor.CloseOnExec(); err != nil {
		fmt.Fprintf(os.Stderr, "coracle: %v\n", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRootCommand().ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "coracle: %v\n", err)
	return 1
}

// exitCode ends the program with a status after everything has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func newRootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "coracle",
		Short: "Amazon EKS on one machine: real clusters behind real AWS APIs",
		Long: `coracle serves the AWS APIs that EKS users rely on, and stands real Kubernetes clusters behind them.

  coracle up                     start it in the background
  eval "$(coracle env)"          point aws, eksctl, terraform and kubectl at it
  aws eks create-cluster ...     seconds later: a cluster
  coracle reset                  leave nothing behind`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fromEnvironment(cmd.Flags())
		},
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.PersistentFlags().String("data-dir", "", "`directory` of everything that belongs to one daemon (default "+
		datadir.Default()+") [CORACLE_DATA_DIR]")
	cmd.AddCommand(
		upCommand(), downCommand(), serveCommand(), envCommand(), trustCommand(), statusCommand(),
		consoleCommand(), auditCommand(),
		fieldsCommand(), deniedCommand(), identityCommand(),
		execCommand(), demoCommand(), doctorCommand(), debugCommand(),
		accountCommand(), interruptCommand(), patchCommand(), bundlesCommand(), imagesCommand(), backupCommand(),
		restoreCommand(),
		resetCommand(), versionCommand(),
		etcdCommand(), endpointCommand(), operationsCommand(),
	)
	return cmd
}

// fromEnvironment gives flags that were not given the value of their environment variable:
// --data-dir is CORACLE_DATA_DIR. Only what describes a daemon has one; --yes has not.
func fromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := environmentName(f.Name)
		if f.Changed || err != nil || !strings.HasSuffix(f.Usage, "["+name+"]") {
			return
		}
		if value := os.Getenv(name); value != "" {
			if setErr := f.Value.Set(value); setErr != nil {
				err = fmt.Errorf("%s=%s: %w", name, value, setErr)
			}
		}
	})
	return err
}

func environmentName(flag string) string {
	return "CORACLE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// dataDir returns the data directory of a command.
func dataDir(cmd *cobra.Command) (datadir.Dir, error) {
	path, err := cmd.Flags().GetString("data-dir")
	if err != nil {
		return "", err
	}
	if path == "" {
		path = datadir.Default()
	}
	return datadir.At(path)
}

// progressPrinter prints what a command does as it goes.
func progressPrinter(w io.Writer) func(string) {
	return func(step string) { fmt.Fprintln(w, step) }
}
