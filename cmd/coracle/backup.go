package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
)

func backupCommand() *cobra.Command {
	var volumes bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the whole state into one file while everything runs on",
		Long: "Write the whole state (AWS resources, clusters with their objects, keys) into one file while everything " +
			"runs on. FILE may be - for standard output. The content of EBS volumes and snapshots is left out unless " +
			"--volumes is given: then it is that of one moment for each, as in a snapshot. That of EFS file systems is left " +
			"out. The exit status is 4 when the backup is complete but for volumes that cannot be copied, which are named.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			missing, err := backupTo(cmd.Context(), cmd.OutOrStdout(), dir, args[0], volumes,
				progressPrinter(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			if ids := dir.Volumes(); len(ids) > 0 && !volumes {
				fmt.Fprintf(cmd.ErrOrStderr(), "The content of these volumes and snapshots is not in it (--volumes includes "+
					"it): %s\n", strings.Join(ids, ", "))
			}
			if ids := dir.FileSystems(); len(ids) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "The content of these file systems is not in it; copy %s for it: %s\n",
					dir.FileSystemsDir(), strings.Join(ids, ", "))
			}
			if missing != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "The content of these volumes could not be copied, and is not in it (%s says why): "+
					"%s\n", dir.ServeLog(), missing)
				return exitCode(lacksVolumes)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&volumes, "volumes", false, "include the content of EBS volumes and snapshots")
	return cmd
}

// lacksVolumes is the exit status when a backup is complete but for volumes that could not be copied.
const lacksVolumes = 4

// backupTo writes a backup into a file, which appears complete or not at all, or to w for "-". It returns a list of the
// volumes that could not be copied; empty when there are none.
func backupTo(ctx context.Context, w io.Writer, dir datadir.Dir, file string, volumes bool,
	progress func(string)) (missing string, err error) {
	client := admin.NewClient(dir.Socket())
	take := func(w io.Writer) error {
		var err error
		missing, err = client.Backup(ctx, w, volumes)
		if errors.Is(err, admin.ErrNotRunning) {
			return notRunning(dir)
		}
		return err
	}
	if file == "-" {
		err := take(w)
		return missing, err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	err = take(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	info, err := os.Stat(f.Name())
	if err != nil {
		return "", err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return "", err
	}
	progress(fmt.Sprintf("wrote %s (%d KiB). It holds every secret of this coracle: keep it safe.", file,
		info.Size()>>10))
	return missing, nil
}
