package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
)

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the whole state into one file while everything runs on",
		Long: "Write the whole state (AWS resources, clusters with their objects, keys) into one file while everything " +
			"runs on. FILE may be - for standard output.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			return backupTo(cmd.Context(), cmd.OutOrStdout(), dir, args[0], progressPrinter(cmd.ErrOrStderr()))
		},
	}
}

// backupTo writes a backup into a file, which appears complete or not at all, or to w for "-".
func backupTo(ctx context.Context, w io.Writer, dir datadir.Dir, file string, progress func(string)) error {
	client := admin.NewClient(dir.Socket())
	take := func(w io.Writer) error {
		err := client.Backup(ctx, w)
		if errors.Is(err, admin.ErrNotRunning) {
			return notRunning(dir)
		}
		return err
	}
	if file == "-" {
		return take(w)
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = take(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	info, err := os.Stat(f.Name())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	progress(fmt.Sprintf("wrote %s (%d KiB). It holds every secret of this coracle: keep it safe.", file,
		info.Size()>>10))
	return nil
}
